-- Gives dead rows a new life under the same identity and sequence: due now, no attempts, the trail
-- kept.
-- Whoever deletes the dead row gives the new life, so it is given once.
-- $1 the clock or NULL for the database's, $2 the identities.
-- Index: {outbox}_dead_id. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, named.place
    FROM unnest($2::text[]) WITH ORDINALITY AS named (event_id, place)
    CROSS JOIN LATERAL (
        SELECT dead.ctid FROM {outbox}_dead AS dead WHERE dead.event_id = named.event_id OFFSET 0
    ) AS near
),
gone AS (
    DELETE FROM {outbox}_dead AS dead USING found WHERE dead.ctid = found.at
    RETURNING found.place, dead.number, dead.seq, dead.event_id, dead.topic, dead.event_type,
        dead.biz_key, dead.payload, dead.payload_bytes, dead.headers, dead.created_at, dead.trail
)
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, trail, moved_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, clock.now, gone.trail, clock.now
FROM gone CROSS JOIN (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
) AS clock
ORDER BY gone.place, gone.number
RETURNING event_id
