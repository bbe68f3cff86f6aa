-- Reads how far back one page searches: to the row that is $2 rows older than $1.
-- Index: {outbox}_later_created, covering. Locks nothing.
SELECT created_at FROM {outbox}_later FORCE INDEX ({outbox}_later_created) WHERE created_at <= $1
ORDER BY created_at DESC LIMIT 1 OFFSET $2
