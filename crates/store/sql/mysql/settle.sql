-- Counts what was published in shards whose leases are open and ours, and says which hot rows are
-- in flight where some went back.
-- $1 the owner; the rows: shards, since when they are ours, how many were published, the rows in
-- flight or NULL.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
UPDATE {rows: shard SIGNED, since SIGNED, done SIGNED, out_rows CHAR} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
SET lease.sent = lease.sent + named.done,
    lease.out_rows = COALESCE(named.out_rows, lease.out_rows)
WHERE lease.owner = $1 AND lease.since = named.since
