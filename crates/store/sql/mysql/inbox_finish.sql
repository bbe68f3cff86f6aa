-- Ends the work on an event. No row changed means that the fence is old.
-- $1 the clock or NULL for the database's, $2 the group, $3 the identity, $4 the fence,
-- $5 the status, $6 what went wrong.
-- Index: the primary key of the inbox. Locks: the one row.
UPDATE {outbox}_inbox
SET status = $5, last_error = $6, lease_until = 0, updated_at = COALESCE($1, {clock})
WHERE group_name = $2 AND event_id = $3 AND fence = $4 AND status = 'PROCESSING'
