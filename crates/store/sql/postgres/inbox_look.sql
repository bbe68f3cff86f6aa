-- Reads what a group remembers of an event.
-- $1 the group, $2 the identity.
-- Index: the primary key of the inbox. Locks nothing.
SELECT status, lease_until FROM {outbox}_inbox WHERE group_name = $1 AND event_id = $2
