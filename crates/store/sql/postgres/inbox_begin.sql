-- Asks to work on an event: the first to insert works, and so does whoever finds it neither
-- processed nor held. No row back means that it is one of the two. A lease of days was taken by a
-- clock that was ahead, and does not count.
-- $1 the clock or NULL for the database's, $2 the group, $3 the identity, $4 how long.
-- Index: the primary key of the inbox. Locks: the one row.
INSERT INTO {outbox}_inbox AS inbox (group_name, event_id, status, attempts, fence, lease_until,
    created_at, updated_at)
SELECT $2, $3, 'PROCESSING', 1, 1, clock.now + $4, clock.now, clock.now
FROM (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
) AS clock
ON CONFLICT (group_name, event_id) DO UPDATE
SET status = 'PROCESSING', attempts = inbox.attempts + 1, fence = inbox.fence + 1,
    lease_until = excluded.lease_until, updated_at = excluded.updated_at
WHERE inbox.status <> 'PROCESSED' AND inbox.lease_until NOT BETWEEN excluded.updated_at + 1
    AND excluded.updated_at + greatest(86400000, 10 * $4)
RETURNING fence
