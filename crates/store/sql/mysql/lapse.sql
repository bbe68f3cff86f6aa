-- Copies hot rows to the later ones as due that nobody settled in time: one attempt, unexplained.
-- $1 now; the rows: numbers and shards, whose leases are open.
-- Index: the primary keys of the hot table and of the lease. Locks: its own new rows,
-- and the later table's next number as `retry_hot` does.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, shard, due_at, attempts, unexplained, fence, moved_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at,
    hot.shard, $1, 1, 1, lease.fence, hot.created_at
FROM {rows: seq SIGNED, shard SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
ORDER BY named.seq
