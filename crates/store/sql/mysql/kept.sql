-- Reads which leases were still ours when they were to be renewed.
-- $1 the owner; the rows: shards, since when they are ours.
-- Index: the primary key of the lease. Locks nothing.
SELECT lease.shard
FROM {rows: shard SIGNED, since SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
WHERE lease.owner = $1 AND lease.since = named.since
