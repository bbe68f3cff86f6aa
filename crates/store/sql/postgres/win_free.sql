-- Claims later rows that are due as they were read, and that nobody has open.
-- $1 numbers, $2 when each was due, $3 now, $4 until when.
-- Index: the primary key of the later table. Locks: the rows claimed, and waits for none.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.due_at
    FROM unnest($1::bigint[], $2::bigint[]) AS ends (number, due_at)
    CROSS JOIN LATERAL (
        SELECT later.ctid FROM {outbox}_later AS later WHERE later.number = ends.number
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS near
)
UPDATE {outbox}_later AS later
SET attempts = later.attempts + 1, unexplained = later.unexplained + 1,
    fence = greatest(later.fence + 1, $3::bigint), due_at = $4
FROM found
WHERE later.ctid = found.at AND later.due_at = found.due_at
RETURNING later.number, later.event_id, later.topic, later.event_type, later.biz_key, later.payload,
    later.payload_bytes, later.headers, later.created_at, later.attempts, later.trail,
    later.unexplained - 1, later.fence
