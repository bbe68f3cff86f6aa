-- Gives dead rows a new life under the same identity: due now, no attempts, the trail kept.
-- Whoever deletes the dead row gives the new life, so it is given once.
-- $1 the clock or NULL for the database's, $2 the identities.
-- Index: {outbox}_dead_id. Locks: the rows that move.
WITH gone AS (
    DELETE FROM {outbox}_dead WHERE event_id = ANY ($2)
    RETURNING number, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
        created_at, trail
)
INSERT INTO {outbox}_later (event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    created_at,
    due_at, trail, moved_at)
SELECT gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload, gone.payload_bytes,
    gone.headers, gone.created_at,
    clock.now, gone.trail, clock.now
FROM gone, unnest($2) WITH ORDINALITY AS named (event_id, place),
    (
        SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
    ) AS clock
WHERE gone.event_id = named.event_id
ORDER BY named.place, gone.number
RETURNING event_id
