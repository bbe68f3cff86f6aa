-- Sets rows back as if they had not been claimed, under the fences of their claims. A row that does
-- not come back was claimed again since, and is unchanged.
-- $1 numbers, $2 fences, $3 events, $4 when they are due.
-- Index: the primary key of the later table. Locks: the rows named.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.fence, ends.due_at
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
        AS ends (number, fence, event_id, due_at)
    CROSS JOIN LATERAL (
        SELECT later.ctid, later.fence, later.event_id, later.unexplained
        FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
    WHERE near.fence = ends.fence AND near.event_id = ends.event_id AND near.unexplained > 0
)
UPDATE {outbox}_later AS later
SET due_at = found.due_at, attempts = later.attempts - 1, unexplained = 0
FROM found
WHERE later.ctid = found.at AND later.fence = found.fence
RETURNING later.number
