-- Reads the next hot rows of some shards, the oldest first. The lease says that they are ours:
-- nothing is written.
-- $1 shards, $2 the lowest place where a look begins, $3 where it begins in each, $4 how many at
-- the most.
-- Index: the primary key of the hot table. Locks nothing.
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, hot.shard
FROM {outbox} AS hot FORCE INDEX (PRIMARY)
WHERE hot.shard IN ($1) AND hot.seq > $2
    AND hot.seq > CAST(ELT(FIELD(hot.shard, $1), $3) AS SIGNED)
ORDER BY hot.seq
LIMIT $4
