-- Opens leases for work that writes, in one order for everybody.
-- $1 the clock or NULL for the database's; the rows: shards, and whether the rows in flight are
-- wanted.
-- Index: the primary key of the lease. Locks: the rows named.
SELECT lease.shard, lease.owner, lease.since, lease.lease_until, COALESCE($1, {clock}) AS now,
    CASE WHEN named.wanted = 1 THEN lease.out_rows ELSE '' END AS out_rows
FROM {rows: shard SIGNED, wanted SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
FOR UPDATE
