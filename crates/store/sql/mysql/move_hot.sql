-- Copies hot rows to the later ones, leased: a claim's first attempt.
-- $1 the fence, $2 until when; the rows: numbers and shards, which are open, and places in the
-- claim.
-- Index: the primary key of the hot table. Locks: its own new rows.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, shard, due_at, attempts, unexplained, fence, moved_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at,
    hot.shard, $2, 1, 1, $1, hot.created_at
FROM {rows: seq SIGNED, shard SIGNED, place SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
ORDER BY named.place
