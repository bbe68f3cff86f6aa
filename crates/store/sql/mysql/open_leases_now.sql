-- Opens leases, with the rows in flight, and waits for nobody: if another has one of them open, the
-- server refuses.
-- $1 the clock or NULL for the database's; the rows: shards.
-- Index: the primary key of the lease. Locks: the rows named.
SELECT lease.shard, lease.owner, lease.since, lease.lease_until, COALESCE($1, {clock}) AS now,
    lease.out_rows
FROM {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
FOR UPDATE NOWAIT
