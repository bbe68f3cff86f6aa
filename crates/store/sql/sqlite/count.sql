-- Counts rows by status, all at one moment.
-- ?1 the clock or NULL for the database's, ?2 how many hot rows are counted one by one.
-- Index: primary keys, {outbox}_later_out, {outbox}_later_due, {outbox}_dead_id. Locks nothing.
WITH clock (now) AS (
    SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
),
flight (seq, until, live) AS (
    SELECT named.value, batch.value ->> 0, lease.lease_until > (SELECT now FROM clock)
    FROM {outbox}_lease AS lease, json_each(lease.out) AS batch,
        json_each(batch.value, '$[1]') AS named
)
SELECT clock.now,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox} LIMIT ?2)) AS hot,
    (SELECT max(seq) FROM {outbox}) - (SELECT min(seq) FROM {outbox}) + 1 AS span,
    (SELECT count(*) FROM {outbox} WHERE seq IN (SELECT seq FROM flight WHERE live)) AS hot_out,
    (SELECT count(*) FROM {outbox}_later) AS later,
    (SELECT count(*) FROM {outbox}_later WHERE unexplained > 0 AND due_at > clock.now) AS later_out,
    (SELECT count(*) FROM {outbox}_dead) AS dead,
    (SELECT sum(sent) FROM {outbox}_lease) AS sent,
    (SELECT created_at FROM {outbox} WHERE seq NOT IN (SELECT seq FROM flight)
        ORDER BY seq LIMIT 1) AS hot_due,
    (SELECT min(until) FROM flight WHERE NOT live AND until <= clock.now
        AND seq IN (SELECT seq FROM {outbox})) AS lapsed_due,
    (SELECT min(due_at) FROM {outbox}_later WHERE due_at <= clock.now) AS later_due
FROM clock
