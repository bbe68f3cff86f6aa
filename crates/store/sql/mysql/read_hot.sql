-- Reads hot rows by their numbers.
-- The rows: their numbers and shards.
-- Index: the primary key of the hot table. Locks nothing.
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, hot.shard
FROM {rows: seq SIGNED, shard SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
