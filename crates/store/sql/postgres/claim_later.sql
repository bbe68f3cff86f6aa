-- Claims later rows: the attempt is counted here, and the lease is their due time.
-- $1 their numbers, $2 the fences, $3 until when.
-- Index: the primary key of the later table. Locks: the rows named.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.fence
    FROM unnest($1::bigint[], $2::bigint[]) AS ends (number, fence)
    CROSS JOIN LATERAL (
        SELECT later.ctid FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
)
UPDATE {outbox}_later AS later
SET attempts = later.attempts + 1, unexplained = later.unexplained + 1, fence = found.fence,
    due_at = $3
FROM found
WHERE later.ctid = found.at
RETURNING later.number, later.event_id, later.topic, later.event_type, later.biz_key, later.payload,
    later.payload_bytes, later.headers, later.created_at, later.attempts, later.trail,
    later.unexplained - 1
