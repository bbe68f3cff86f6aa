-- Opens a line whose fence is as it was seen. Whoever comes second waits, and finds that it is not.
-- $1 the shard, $2 its fence.
-- Index: the primary key of the lease. Locks: the one row.
UPDATE {outbox}_lease AS lease SET lease.fence = lease.fence + 1
WHERE lease.shard = $1 AND lease.fence = $2 AND lease.since = 0
