-- Opens lines that nobody has open, and passes over the others.
-- $1 the clock or NULL for the database's, $2 how many at the most; the rows: shards in the order
-- in which they are wanted.
-- Index: the primary key of the lease. Locks: the rows that come back, and waits for none.
SELECT lease.shard, lease.fence, COALESCE($1, {clock}) AS now, lease.out_rows
FROM {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
WHERE lease.since = 0
LIMIT $2
FOR UPDATE SKIP LOCKED
