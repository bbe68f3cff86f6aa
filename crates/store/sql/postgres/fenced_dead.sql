-- Gives rows up under the fences of their claims. A row that does not come back was claimed again
-- since, and is unchanged.
-- $1 numbers, $2 fences, $3 events, $4 attempts, $5 their trails, $6 now.
-- Index: the primary key of the later table. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.fence, ends.attempts, ends.trail, ends.place
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::int[], $5::text[])
        WITH ORDINALITY AS ends (number, fence, event_id, attempts, trail, place)
    CROSS JOIN LATERAL (
        SELECT later.ctid, later.fence, later.event_id, later.unexplained
        FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
    WHERE near.fence = ends.fence AND near.event_id = ends.event_id AND near.unexplained > 0
),
gone AS (
    DELETE FROM {outbox}_later AS later USING found
    WHERE later.ctid = found.at AND later.fence = found.fence
    RETURNING later.number, later.seq, later.event_id, later.topic, later.event_type, later.biz_key,
        later.payload, later.payload_bytes, later.headers, later.created_at,
        found.attempts, found.trail, found.place
),
kept AS (
    INSERT INTO {outbox}_dead (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
        headers, created_at, attempts, trail, dead_at)
    SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
        gone.payload_bytes, gone.headers, gone.created_at, gone.attempts, gone.trail, $6
    FROM gone
    ORDER BY gone.place
)
SELECT gone.number FROM gone
