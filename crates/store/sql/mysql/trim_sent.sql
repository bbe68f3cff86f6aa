-- Reads history that was sent before $1, at most $2 rows of it. It looks at $3 first rows, whose
-- numbers grow with `sent_at`, and at $3 that were created last before $1: rows that a clock dated
-- ahead stand still in front of the first, but not of the second.
-- Index: the primary key of the history, {outbox}_sent_created. Locks nothing.
SELECT first.number, first.slot
FROM (
    SELECT number, slot, sent_at FROM {outbox}_sent FORCE INDEX (PRIMARY) ORDER BY number LIMIT $3
) AS first
WHERE first.sent_at < $1
UNION
SELECT last.number, last.slot
FROM (
    SELECT number, slot, sent_at FROM {outbox}_sent FORCE INDEX ({outbox}_sent_created)
    WHERE created_at < $1 ORDER BY created_at DESC LIMIT $3
) AS last
WHERE last.sent_at < $1
ORDER BY number LIMIT $2
