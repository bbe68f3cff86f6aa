-- Opens lines that nobody has open, and passes over the others.
-- $1 the clock or NULL for the database's, $2 shards in the order in which they are wanted, $3 how
-- many at the most.
-- Index: the primary key of the lease. Locks: the rows that come back, and waits for none.
SELECT lease.shard, lease.fence,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    lease.out_seq, lease.out_until, lease.out_fence
FROM unnest($2::smallint[]) AS named (shard)
JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
WHERE lease.since = 0
LIMIT $3
FOR NO KEY UPDATE OF lease SKIP LOCKED
