-- Takes leases: whoever held them before has an older fence from here on. The fence is raised last,
-- for an assignment sees those before it.
-- $1 the owner, $2 until when; the rows: shards, whose leases are open.
-- Index: the primary key of the lease. Locks: the rows named.
UPDATE {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
SET lease.since = lease.fence + 1, lease.owner = $1, lease.lease_until = $2, lease.out_rows = '',
    lease.fence = lease.fence + 1
