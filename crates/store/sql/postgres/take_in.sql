-- Takes an event in as processed. No row back means that it was taken in before, or that another
-- holder works on it. A lease of more than a day was taken by a clock that was ahead.
-- $1 the clock or NULL for the database's, $2 the group, $3 the identity.
-- Index: the primary key of the inbox. Locks: the one row.
INSERT INTO {outbox}_inbox AS inbox (group_name, event_id, status, attempts, fence, lease_until,
    created_at, updated_at)
SELECT $2, $3, 'PROCESSED', 1, 1, 0, clock.now, clock.now
FROM (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
) AS clock
ON CONFLICT (group_name, event_id) DO UPDATE
SET status = 'PROCESSED', attempts = inbox.attempts + 1, fence = inbox.fence + 1, lease_until = 0,
    last_error = NULL, updated_at = excluded.updated_at
WHERE inbox.status <> 'PROCESSED' AND inbox.lease_until
    NOT BETWEEN excluded.updated_at + 1 AND excluded.updated_at + 86400000
RETURNING fence
