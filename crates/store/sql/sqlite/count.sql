-- Counts rows by status, all at one moment.
-- ?1 the clock or NULL for the database's, ?2 how many rows of a table are counted one by one; a
-- span of numbers is the most that there can be. ?3 among how many newest numbers the share of new
-- later rows is looked at.
-- Index: primary keys, {outbox}_later_out, {outbox}_later_due, {outbox}_later_new,
-- {outbox}_dead_created. Locks nothing.
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
    (SELECT max(seq) FROM {outbox}) - (SELECT min(seq) FROM {outbox}) + 1 AS hot_span,
    (SELECT count(*) FROM {outbox} WHERE seq IN (SELECT seq FROM flight WHERE live)) AS hot_out,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox}_later LIMIT ?2)) AS later,
    (SELECT max(number) FROM {outbox}_later) - (SELECT min(number) FROM {outbox}_later) + 1
        AS later_span,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox}_later WHERE attempts = 0 LIMIT ?2)) AS later_new,
    (SELECT count(*) FROM {outbox}_later
        WHERE number > (SELECT max(number) FROM {outbox}_later) - ?3) AS recent,
    (SELECT count(*) FROM {outbox}_later
        WHERE attempts = 0 AND number > (SELECT max(number) FROM {outbox}_later) - ?3)
        AS recent_new,
    (SELECT count(*) FROM {outbox}_later WHERE unexplained > 0 AND +due_at > clock.now)
        AS later_out,
    (SELECT count(*) FROM (SELECT 1 FROM {outbox}_dead LIMIT ?2)) AS dead,
    (SELECT max(number) FROM {outbox}_dead) - (SELECT min(number) FROM {outbox}_dead) + 1
        AS dead_span,
    (SELECT sum(sent) FROM {outbox}_lease) AS sent,
    (SELECT created_at FROM {outbox} WHERE seq NOT IN (SELECT seq FROM flight)
        ORDER BY seq LIMIT 1) AS hot_due,
    (SELECT min(until) FROM flight WHERE NOT live AND until <= clock.now
        AND seq IN (SELECT seq FROM {outbox})) AS lapsed_due,
    (SELECT min(due_at) FROM {outbox}_later WHERE due_at <= clock.now) AS later_due
FROM clock
