-- Opens lines, of those with a relay's name if one is given.
-- $1 the clock or NULL for the database's, $2 the relay or NULL; the rows: shards.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
SELECT lease.shard, lease.fence, COALESCE($1, {clock}) AS now, lease.out_rows
FROM {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
WHERE lease.since = 0 AND lease.owner = COALESCE($2, lease.owner)
FOR UPDATE
