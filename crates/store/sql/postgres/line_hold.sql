-- Opens lines for a settlement.
-- $1 the clock or NULL for the database's, $2 shards.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
SELECT lease.shard, lease.fence,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    lease.out_seq, lease.out_until, lease.out_fence
FROM {outbox}_lease AS lease
WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($2::smallint[]) AS named))
    AND lease.since = 0
ORDER BY lease.name
FOR NO KEY UPDATE
