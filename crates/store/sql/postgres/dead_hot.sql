-- Gives hot rows up.
-- $1 shards, $2 numbers, $3 attempts, $4 their trails, $5 now.
-- Index: the primary key of the hot table. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.attempts, ends.trail, ends.place
    FROM unnest($1::smallint[], $2::bigint[], $3::int[], $4::text[])
        WITH ORDINALITY AS ends (shard, seq, attempts, trail, place)
    CROSS JOIN LATERAL (
        SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = ends.shard AND hot.seq = ends.seq
        LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox} AS hot USING found WHERE hot.ctid = found.at
    RETURNING hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, found.attempts, found.trail, found.place
)
INSERT INTO {outbox}_dead (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, dead_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, gone.attempts, gone.trail, $5
FROM gone
ORDER BY gone.place
