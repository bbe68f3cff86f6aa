-- Reads how far back one page searches: to the row that is $2 rows older than $1.
-- Index: {outbox}_sent_created, covering. Locks nothing.
SELECT created_at FROM {outbox}_sent FORCE INDEX ({outbox}_sent_created) WHERE created_at <= $1
ORDER BY created_at DESC LIMIT 1 OFFSET $2
