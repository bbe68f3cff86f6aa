-- Writes down with which strategy the outbox is claimed.
-- $1 its name.
-- Index: the primary key of the lease. Locks: the one row.
UPDATE {outbox}_lease SET owner = $1 WHERE name = 'strategy'
