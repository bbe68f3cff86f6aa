-- Sets later rows back as if they had not been claimed.
-- $1 numbers, $2 when they are due.
-- Index: the primary key of the later table. Locks: the rows named.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.due_at
    FROM unnest($1::bigint[], $2::bigint[]) AS ends (number, due_at)
    CROSS JOIN LATERAL (
        SELECT later.ctid FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
)
UPDATE {outbox}_later AS later
SET due_at = found.due_at, attempts = later.attempts - 1, unexplained = 0
FROM found
WHERE later.ctid = found.at AND later.unexplained <> 0
