-- Forgets what was taken in, unless it was begun again meanwhile.
-- $1 what was last changed before this goes, $2 now; the rows: groups and identities.
-- Index: the primary key of the inbox. Locks: the rows that go.
DELETE inbox
FROM {rows: group_name BINARY, event_id ID} AS named
STRAIGHT_JOIN {outbox}_inbox AS inbox FORCE INDEX (PRIMARY)
    ON inbox.group_name = named.group_name AND inbox.event_id = named.event_id
WHERE inbox.updated_at < $1 AND inbox.lease_until <= $2
