-- Begins the work on an event again that is neither processed nor held; its fence is the answer.
-- A lease of days was taken by a clock that was ahead, and does not count.
-- $1 the clock or NULL for the database's, $2 the group, $3 the identity, $4 how long, $5 the
-- status, $6 for how long anybody may hold it.
-- Index: the primary key of the inbox. Locks: the one row.
UPDATE {outbox}_inbox
SET status = $5, attempts = attempts + 1, fence = LAST_INSERT_ID(fence + 1),
    lease_until = CASE WHEN $4 = 0 THEN 0 ELSE COALESCE($1, {clock}) + $4 END,
    last_error = CASE WHEN $5 = 'PROCESSED' THEN NULL ELSE last_error END,
    updated_at = COALESCE($1, {clock})
WHERE group_name = $2 AND event_id = $3 AND status <> 'PROCESSED'
    AND lease_until NOT BETWEEN COALESCE($1, {clock}) + 1 AND COALESCE($1, {clock}) + $6
