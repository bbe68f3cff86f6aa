-- Reads how far back one page searches a key: to its row that is $2 rows older than $1.
-- $3 the key.
-- Index: {outbox}_sent_key, covering. Locks nothing.
SELECT created_at FROM {outbox}_sent
WHERE biz_key = $3 AND created_at <= $1
ORDER BY created_at DESC LIMIT 1 OFFSET $2
