-- Copies hot rows to the later ones for another attempt.
-- $1 now; the rows: numbers and shards, attempts, fences, when they are due, their trails, places
-- in line.
-- Index: the primary key of the hot table. Locks: its own new rows; where
-- innodb_autoinc_lock_mode is 1, the later table's next number, until the statement ends: one with
-- VALUES would not, and took 2 to 9 times as long with a subquery for each column.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, shard, due_at, attempts, fence, trail, moved_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at,
    hot.shard, named.due_at, named.attempts, named.fence, named.trail, $1
FROM {rows: seq SIGNED, shard SIGNED, attempts SIGNED, fence SIGNED, due_at SIGNED, trail CHAR,
    place SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
ORDER BY named.place
