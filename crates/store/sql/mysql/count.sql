-- Counts rows by status.
-- $1 now, $2 how many rows of a table are counted one by one; a span of numbers is the most that
-- there can be. $3 among how many newest numbers the share of new later rows is looked at.
-- Index: primary keys, {outbox}_later_out, {outbox}_later_new. Locks nothing.
SELECT
    (SELECT COUNT(*) FROM (SELECT 1 FROM {outbox} LIMIT $2) AS counted) AS hot,
    (SELECT COUNT(*) FROM (SELECT 1 FROM {outbox}_later LIMIT $2) AS counted) AS later,
    span.later_last - span.later_first + 1 AS later_span,
    (SELECT COUNT(*) FROM (
        SELECT 1 FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_new)
        WHERE later.attempts = 0 LIMIT $2) AS counted) AS later_new,
    (SELECT COUNT(*) FROM {outbox}_later AS later FORCE INDEX (PRIMARY)
        WHERE later.number > span.later_last - $3) AS recent,
    (SELECT COUNT(*) FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_new)
        WHERE later.attempts = 0 AND later.number > span.later_last - $3) AS recent_new,
    (SELECT COUNT(*) FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_out)
        WHERE later.unexplained > 0 AND later.due_at > $1) AS later_out,
    (SELECT COUNT(*) FROM (SELECT 1 FROM {outbox}_dead LIMIT $2) AS counted) AS dead,
    span.dead_last - span.dead_first + 1 AS dead_span
FROM (
    SELECT (SELECT MIN(number) FROM {outbox}_later) AS later_first,
        (SELECT MAX(number) FROM {outbox}_later) AS later_last,
        (SELECT MIN(number) FROM {outbox}_dead) AS dead_first,
        (SELECT MAX(number) FROM {outbox}_dead) AS dead_last
) AS span
