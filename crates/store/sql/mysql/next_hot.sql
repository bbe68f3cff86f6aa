-- Reads the next hot rows of each shard as candidates of a claim.
-- $1 how many of each shard; for each: #1 the shard, #2 where the look begins.
-- Index: the primary key of the hot table. Locks nothing.
{each}
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, hot.shard
FROM {outbox} AS hot FORCE INDEX (PRIMARY)
WHERE hot.shard = #1 AND hot.seq > #2
ORDER BY hot.seq
LIMIT $1
