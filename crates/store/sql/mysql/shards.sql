-- Reads how many shards the outbox was installed with.
-- Index: none; the lease table is small. Locks nothing.
SELECT COUNT(*) FROM {outbox}_lease WHERE shard >= 0
