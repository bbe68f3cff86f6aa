-- Sets hot rows down for another attempt.
-- $1 shards, $2 numbers, $3 attempts, $4 fences, $5 when they are due, $6 their trails, $7 now.
-- Index: the primary key of the hot table. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.attempts, ends.fence, ends.due_at, ends.trail, ends.place
    FROM unnest($1::smallint[], $2::bigint[], $3::int[], $4::bigint[], $5::bigint[], $6::text[])
        WITH ORDINALITY AS ends (shard, seq, attempts, fence, due_at, trail, place)
    CROSS JOIN LATERAL (
        SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = ends.shard AND hot.seq = ends.seq
        LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox} AS hot USING found WHERE hot.ctid = found.at
    RETURNING hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, found.attempts, found.fence, found.due_at,
        found.trail, found.place
)
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, fence, trail, moved_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, gone.due_at, gone.attempts, gone.fence,
    gone.trail, $7
FROM gone
ORDER BY gone.place
