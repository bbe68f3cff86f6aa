-- Counts rows by status, all at one moment.
-- $1 the clock or NULL for the database's, $2 how many rows of a table are counted one by one; a
-- span of numbers is the most that there can be. $3 among how many newest numbers the share of new
-- later rows is looked at.
-- Index: primary keys, {outbox}_later_out, {outbox}_later_due, {outbox}_later_new. Locks nothing.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
),
flight AS MATERIALIZED (
    SELECT lease.shard, named.seq, named.until,
        CASE WHEN lease.since > 0 THEN lease.lease_until ELSE named.until END > clock.now AS live,
        (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            AND hot.seq = named.seq LIMIT 1) IS NOT NULL AS there
    FROM clock CROSS JOIN {outbox}_lease AS lease
    CROSS JOIN LATERAL unnest(lease.out_seq, lease.out_until) AS named (seq, until)
),
edge AS MATERIALIZED (
    SELECT lease.shard,
        (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard, hot.seq LIMIT 1) AS first,
        (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard DESC, hot.seq DESC LIMIT 1) AS last,
        (SELECT hot.created_at FROM {outbox} AS hot WHERE hot.shard = lease.shard
            AND hot.seq NOT IN (SELECT flight.seq FROM flight)
            ORDER BY hot.shard, hot.seq LIMIT 1) AS hot_due,
        (SELECT later.due_at FROM {outbox}_later AS later
            WHERE later.shard = lease.shard AND later.due_at <= (SELECT now FROM clock)
            ORDER BY later.shard, later.due_at LIMIT 1) AS later_due
    FROM {outbox}_lease AS lease WHERE lease.shard IS NOT NULL
),
span AS MATERIALIZED (
    SELECT (SELECT number FROM {outbox}_later ORDER BY number LIMIT 1) AS later_first,
        (SELECT number FROM {outbox}_later ORDER BY number DESC LIMIT 1) AS later_last,
        (SELECT number FROM {outbox}_dead ORDER BY number LIMIT 1) AS dead_first,
        (SELECT number FROM {outbox}_dead ORDER BY number DESC LIMIT 1) AS dead_last
)
SELECT clock.now,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox} LIMIT $2) AS counted) AS hot,
    (SELECT max(last) - min(first) + 1 FROM edge) AS hot_span,
    (SELECT count(*) FROM flight WHERE live AND there) AS hot_out,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox}_later LIMIT $2) AS counted) AS later,
    span.later_last - span.later_first + 1 AS later_span,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox}_later WHERE attempts = 0 LIMIT $2) AS counted)
        AS later_new,
    (SELECT count(*) FROM {outbox}_later WHERE number > span.later_last - $3) AS recent,
    (SELECT count(*) FROM {outbox}_later WHERE attempts = 0
        AND number > span.later_last - $3)
        AS recent_new,
    (SELECT count(*) FROM {outbox}_later WHERE unexplained > 0 AND due_at > clock.now) AS later_out,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox}_dead LIMIT $2) AS counted) AS dead,
    span.dead_last - span.dead_first + 1 AS dead_span,
    (SELECT sum(sent)::bigint FROM {outbox}_tally) AS sent,
    (SELECT min(hot_due) FROM edge) AS hot_due,
    (SELECT min(until) FROM flight WHERE NOT live AND until <= clock.now AND there) AS lapsed_due,
    (SELECT min(later_due) FROM edge) AS later_due
FROM clock CROSS JOIN span
