-- Counts rows by status, all at one moment.
-- $1 the clock or NULL for the database's, $2 how many hot rows are counted one by one.
-- Index: primary keys, {outbox}_later_out, {outbox}_later_due, {outbox}_dead_id. Locks nothing.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
),
flight AS MATERIALIZED (
    SELECT lease.shard, named.seq, named.until, lease.lease_until > clock.now AS live,
        EXISTS (SELECT 1 FROM {outbox} AS hot
            WHERE hot.shard = lease.shard AND hot.seq = named.seq) AS there
    FROM clock CROSS JOIN {outbox}_lease AS lease
    CROSS JOIN LATERAL unnest(lease.out_seq, lease.out_until) AS named (seq, until)
),
edge AS MATERIALIZED (
    SELECT (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard, hot.seq LIMIT 1) AS first,
        (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard DESC, hot.seq DESC LIMIT 1) AS last,
        (SELECT hot.created_at FROM {outbox} AS hot WHERE hot.shard = lease.shard
            AND hot.seq NOT IN (SELECT flight.seq FROM flight)
            ORDER BY hot.shard, hot.seq LIMIT 1) AS due
    FROM {outbox}_lease AS lease WHERE lease.shard IS NOT NULL
)
SELECT clock.now,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox} LIMIT $2) AS counted) AS hot,
    (SELECT max(last) - min(first) + 1 FROM edge) AS span,
    (SELECT count(*) FROM flight WHERE live AND there) AS hot_out,
    (SELECT count(*) FROM {outbox}_later) AS later,
    (SELECT count(*) FROM {outbox}_later WHERE unexplained > 0 AND due_at > clock.now) AS later_out,
    (SELECT count(*) FROM {outbox}_dead) AS dead,
    (SELECT sum(sent)::bigint FROM {outbox}_lease) AS sent,
    (SELECT min(due) FROM edge) AS hot_due,
    (SELECT min(until) FROM flight WHERE NOT live AND until <= clock.now AND there) AS lapsed_due,
    (SELECT min(due_at) FROM {outbox}_later WHERE due_at <= clock.now) AS later_due
FROM clock
