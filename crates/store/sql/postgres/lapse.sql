-- Sets hot rows down as due that nobody settled in time: one attempt, unexplained.
-- $1 shards, whose leases are open, $2 numbers, $3 now.
-- Index: the primary keys of the lease and of the hot table. Locks: the rows that move.
WITH gone AS (
    DELETE FROM {outbox} AS hot
    USING unnest($1::smallint[], $2::bigint[]) AS named (shard, seq)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE hot.shard = named.shard AND hot.seq = named.seq
    RETURNING hot.seq, lease.fence, hot.event_id, hot.topic, hot.event_type, hot.biz_key,
        hot.payload, hot.payload_bytes, hot.headers, hot.created_at
)
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, unexplained, fence, moved_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, $3, 1, 1, gone.fence, gone.created_at
FROM gone
ORDER BY gone.seq
