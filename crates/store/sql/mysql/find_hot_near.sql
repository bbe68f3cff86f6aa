-- Reads the oldest hot row that is numbered from $1 on.
-- Index: the primary key of the hot table. Locks nothing.
SELECT seq, created_at FROM {outbox} FORCE INDEX (PRIMARY) WHERE seq >= $1
ORDER BY seq LIMIT 1
