-- Reads the newest hot row that is numbered up to $1.
-- Index: the primary key of the hot table. Locks nothing.
SELECT seq, created_at FROM {outbox} FORCE INDEX (PRIMARY) WHERE seq <= $1
ORDER BY seq DESC LIMIT 1
