-- Gives later rows up.
-- $1 numbers, $2 attempts, $3 their trails, $4 now.
-- Index: the primary key of the later table. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.attempts, ends.trail, ends.place
    FROM unnest($1::bigint[], $2::int[], $3::text[])
        WITH ORDINALITY AS ends (number, attempts, trail, place)
    CROSS JOIN LATERAL (
        SELECT later.ctid FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox}_later AS later USING found WHERE later.ctid = found.at
    RETURNING later.seq, later.event_id, later.topic, later.event_type, later.biz_key,
        later.payload, later.payload_bytes, later.headers, later.created_at,
        found.attempts, found.trail, found.place
)
INSERT INTO {outbox}_dead (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, dead_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, gone.attempts, gone.trail, $4
FROM gone
ORDER BY gone.place
