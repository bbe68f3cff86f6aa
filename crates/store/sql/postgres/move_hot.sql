-- Claims hot rows: moves them to the later table, leased. Whoever comes second finds none.
-- $1 shards, $2 numbers, $3 places in the claim, $4 the fence, $5 until when.
-- Index: the primary key of the hot table. Locks: the rows that move, in one order for everybody.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.place
    FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS ends (shard, seq, place)
    CROSS JOIN LATERAL (
        SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = ends.shard AND hot.seq = ends.seq
        LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox} AS hot USING found WHERE hot.ctid = found.at
    RETURNING hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, found.place
)
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, unexplained, fence, moved_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, $5, 1, 1, $4, gone.created_at
FROM gone
ORDER BY gone.place
RETURNING seq, number
