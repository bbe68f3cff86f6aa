-- Reads the fences of leases that were taken.
-- The rows: shards.
-- Index: the primary key of the lease. Locks nothing.
SELECT lease.shard, lease.fence
FROM {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
