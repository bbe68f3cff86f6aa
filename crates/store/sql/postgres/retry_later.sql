-- Sets refused later rows back for another attempt.
-- $1 numbers, $2 when they are due, $3 their trails, $4 now.
-- Index: the primary key of the later table. Locks: the rows named.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.due_at, ends.trail
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ends (number, due_at, trail)
    CROSS JOIN LATERAL (
        SELECT later.ctid FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
)
UPDATE {outbox}_later AS later
SET due_at = found.due_at, unexplained = 0, trail = found.trail, moved_at = $4
FROM found
WHERE later.ctid = found.at
