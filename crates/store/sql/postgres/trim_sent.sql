-- Trims the oldest history.
-- $1 what was sent before this goes, $2 how many at the most.
-- Index: the primary key of the history, whose numbers grow with `sent_at`. Locks: the rows that
-- go.
WITH oldest AS MATERIALIZED (
    SELECT number, sent_at FROM {outbox}_sent ORDER BY number LIMIT $2
)
DELETE FROM {outbox}_sent
WHERE number = ANY (ARRAY(SELECT number FROM oldest WHERE sent_at < $1 ORDER BY number))
