-- Reads with which strategy the outbox is claimed, and keeps it so until the transaction ends. The
-- row of shard -2 is no lease: its owner is the strategy's name.
-- $1 the clock or NULL for the database's.
-- Index: the primary key of the lease. Locks: the one row, which others may read meanwhile.
SELECT lease.owner, COALESCE($1, {clock}) AS now FROM {outbox}_lease AS lease
WHERE lease.shard = -2
LOCK IN SHARE MODE
