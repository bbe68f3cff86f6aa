-- Sets the hot rows that silent owners had in flight down as due: one attempt, unexplained.
-- $1 shards, whose leases are open, $2 now.
-- Index: the primary keys of the lease and of the hot table. Locks: the rows that move.
WITH named AS MATERIALIZED (
    SELECT lease.shard, lease.fence, flight.seq
    FROM {outbox}_lease AS lease CROSS JOIN LATERAL unnest(lease.out_seq) AS flight (seq)
    WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($1::smallint[]) AS named))
),
gone AS (
    DELETE FROM {outbox} AS hot USING named
    WHERE hot.shard = named.shard AND hot.seq = named.seq
    RETURNING hot.seq, named.fence, hot.event_id, hot.topic, hot.event_type, hot.biz_key,
        hot.payload, hot.payload_bytes, hot.headers, hot.created_at
)
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at,
    due_at, attempts, unexplained, fence, moved_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at,
    $2, 1, 1, gone.fence, gone.created_at
FROM gone
ORDER BY gone.seq
