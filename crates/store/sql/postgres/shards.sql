-- Reads how many shards the outbox was installed with.
-- Index: none; the lease table is small. Locks nothing.
SELECT count(*) FROM {outbox}_lease WHERE shard IS NOT NULL
