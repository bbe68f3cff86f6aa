-- Opens rows in flight for their settlement. A row that does not come back was claimed again since.
-- $1 numbers, $2 fences, $3 events.
-- Index: the primary key of the later table. Locks: the rows named.
SELECT near.number
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ends (number, fence, event_id)
CROSS JOIN LATERAL (
    SELECT later.number, later.fence, later.event_id, later.unexplained
    FROM {outbox}_later AS later WHERE later.number = ends.number
    LIMIT 1
    FOR UPDATE
) AS near
WHERE near.fence = ends.fence AND near.event_id = ends.event_id AND near.unexplained > 0
