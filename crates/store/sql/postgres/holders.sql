-- Reads the keys that wait for another attempt of one of their events.
-- $1 shards.
-- Index: {outbox}_later_holders, covering. Locks nothing.
SELECT number, seq, biz_key, topic, shard FROM {outbox}_later
WHERE shard = ANY ($1) AND attempts > 0 AND biz_key IS NOT NULL
