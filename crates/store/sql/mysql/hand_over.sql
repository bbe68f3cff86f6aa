-- Hands leases over: to nobody, so that anyone may take them at once, or to an heir. What is
-- settled under them is stale; `mark` tells their tallies in the same transaction.
-- $1 the owner, $2 until when it waits for the heir; the rows: shards, since when they were ours,
-- heirs. The fence is raised last, for an assignment sees those before it.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
UPDATE {rows: shard SIGNED, since SIGNED, heir CHAR} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
SET lease.since = lease.fence + 1, lease.owner = COALESCE(named.heir, lease.owner),
    lease.lease_until = CASE WHEN named.heir IS NULL THEN 0 ELSE $2 END, lease.out_rows = '',
    lease.fence = lease.fence + 1
WHERE lease.owner = $1 AND lease.since = named.since
