-- Sets hot rows down as due that nobody settled in time: one attempt, unexplained.
-- $1 shards, whose leases are open, $2 numbers, $3 now.
-- Index: the primary keys of the lease and of the hot table. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, lease.fence
    FROM unnest($1::smallint[], $2::bigint[]) AS ends (shard, seq)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || ends.shard
    CROSS JOIN LATERAL (
        SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = ends.shard AND hot.seq = ends.seq
        LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox} AS hot USING found WHERE hot.ctid = found.at
    RETURNING hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, found.fence
)
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, unexplained, fence, moved_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, $3, 1, 1, gone.fence, gone.created_at
FROM gone
ORDER BY gone.seq
