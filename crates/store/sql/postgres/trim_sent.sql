-- Trims history that was sent before $1, at most $2 rows of it. It looks at $3 rows that were
-- created first, at $3 that were created last before $1, and at $3 that were created last of all:
-- rows that were created long ago and sent late stand still in front of the first, and rows that
-- their producers dated ahead are behind the second.
-- Index: {outbox}_sent_created. Locks: the rows that go.
WITH first AS MATERIALIZED (
    SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
    ORDER BY created_at LIMIT $3
),
last AS MATERIALIZED (
    SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent WHERE created_at < $1
    ORDER BY created_at DESC LIMIT $3
),
top AS MATERIALIZED (
    SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
    ORDER BY created_at DESC LIMIT $3
),
old AS MATERIALIZED (
    SELECT first.day, first.at FROM first WHERE first.sent_at < $1
    UNION
    SELECT last.day, last.at FROM last WHERE last.sent_at < $1
    UNION
    SELECT top.day, top.at FROM top WHERE top.sent_at < $1
    LIMIT $2
)
DELETE FROM {outbox}_sent AS sent USING old WHERE sent.ctid = old.at AND sent.tableoid = old.day
