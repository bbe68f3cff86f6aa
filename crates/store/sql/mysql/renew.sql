-- Renews leases under the newest claims' fences, and says which hot rows are in flight where that
-- has changed. Fewer rows found than named means that some were lost.
-- $1 the owner, $2 until when; the rows: shards, since when they are ours, their fences, the rows
-- in flight or NULL.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
UPDATE {rows: shard SIGNED, since SIGNED, fence SIGNED, out_rows CHAR} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
SET lease.lease_until = $2, lease.fence = GREATEST(lease.fence, named.fence),
    lease.out_rows = COALESCE(named.out_rows, lease.out_rows)
WHERE lease.owner = $1 AND lease.since = named.since
