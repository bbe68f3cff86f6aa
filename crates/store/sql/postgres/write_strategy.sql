-- Writes down with which strategy the outbox is claimed.
-- $1 its name.
-- Index: the primary key of the lease. Locks: the one row.
INSERT INTO {outbox}_lease (name, owner) VALUES ('strategy', $1)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner
