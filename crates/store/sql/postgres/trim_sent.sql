-- Trims history that was sent before $1, at most $2 rows of it. It looks at $3 first rows, whose
-- numbers grow with `sent_at`, and at $3 that were created last before $1: rows that a clock dated
-- ahead stand still in front of the first, but not of the second.
-- Index: the primary key of the history, {outbox}_sent_created. Locks: the rows that go.
WITH first AS MATERIALIZED (
    SELECT number, sent_at FROM {outbox}_sent ORDER BY number LIMIT $3
),
last AS MATERIALIZED (
    SELECT number, sent_at FROM {outbox}_sent WHERE created_at < $1
    ORDER BY created_at DESC LIMIT $3
)
DELETE FROM {outbox}_sent WHERE number = ANY (ARRAY(
    SELECT number FROM first WHERE sent_at < $1
    UNION
    SELECT number FROM last WHERE sent_at < $1
    ORDER BY number LIMIT $2
))
