-- Begins the work on an event that nobody has begun. A duplicate is refused by the key.
-- $1 the clock or NULL for the database's, $2 the group, $3 the identity, $4 how long, $5 the
-- status.
-- Index: the primary key of the inbox. Locks: its own new row.
INSERT INTO {outbox}_inbox (group_name, event_id, status, attempts, fence, lease_until, created_at,
    updated_at)
VALUES ($2, $3, $5, 1, 1, CASE WHEN $4 = 0 THEN 0 ELSE COALESCE($1, {clock}) + $4 END,
    COALESCE($1, {clock}), COALESCE($1, {clock}))
