-- Opens rows in flight for their settlement. A row that does not come back was claimed again since.
-- $1 numbers, $2 fences, $3 events.
-- Index: the primary key of the later table. Locks: the rows that come back.
SELECT near.number
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ends (number, fence, event_id)
CROSS JOIN LATERAL (
    SELECT later.number FROM {outbox}_later AS later
    WHERE later.number = ends.number AND later.fence = ends.fence
        AND later.event_id = ends.event_id AND later.unexplained > 0
    LIMIT 1
    FOR UPDATE
) AS near
