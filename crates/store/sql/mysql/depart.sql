-- Says that a relay goes.
-- $1 its name.
-- Index: the primary key of the relays. Locks: the one row.
DELETE FROM {outbox}_relay WHERE name = $1
