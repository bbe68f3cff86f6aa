-- Reads what a group remembers of an event. It locks, because a transaction of an application may
-- not see otherwise what a duplicate was refused for.
-- $1 the group, $2 the identity.
-- Index: the primary key of the inbox. Locks: the one row.
SELECT status, lease_until FROM {outbox}_inbox WHERE group_name = $1 AND event_id = $2
FOR UPDATE
