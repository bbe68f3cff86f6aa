-- Counts what competing relays have published, in one of the lease rows.
-- $1 the shard, $2 how many.
-- Index: the primary key of the lease. Locks: the one row.
UPDATE {outbox}_lease AS lease SET lease.sent = lease.sent + $2 WHERE lease.shard = $1
