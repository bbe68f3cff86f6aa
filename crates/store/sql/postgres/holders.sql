-- Reads the keys of a shard that wait for another attempt of one of their events.
-- $1 the shard.
-- Index: {outbox}_later_holders, covering. Locks nothing.
SELECT later.number, later.seq, later.biz_key, later.topic
FROM {outbox}_later AS later
WHERE later.shard = $1 AND later.attempts > 0 AND later.biz_key IS NOT NULL
ORDER BY later.shard, later.biz_key, later.topic, later.seq, later.number
