-- Writes down with which strategy the outbox is claimed.
-- $1 its name.
-- Index: the primary key of the lease. Locks: the one row.
INSERT INTO {outbox}_lease (shard, owner) VALUES (-2, $1)
ON DUPLICATE KEY UPDATE owner = $1
