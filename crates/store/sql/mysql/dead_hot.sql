-- Copies hot rows to those that were given up. Whoever comes second waits, and finds them gone.
-- $1 now; the rows: their numbers and shards, attempts, trails, places in line.
-- Index: the primary key of the hot table. Locks: the rows named, and its own new
-- rows.
INSERT INTO {outbox}_dead (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, dead_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at,
    named.attempts, named.trail, $1
FROM {rows: seq SIGNED, shard SIGNED, attempts SIGNED, trail CHAR, place SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
ORDER BY named.place
FOR UPDATE
