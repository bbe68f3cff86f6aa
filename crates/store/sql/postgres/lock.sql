-- Opens leases for a claim that writes, in one order for everybody.
-- $1 the clock or NULL for the database's, $2 shards.
-- Index: the primary key of the lease. Locks: the rows named.
SELECT lease.shard, lease.owner, lease.fence, lease.lease_until,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
FROM {outbox}_lease AS lease
WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($2::smallint[]) AS named))
ORDER BY lease.name
FOR NO KEY UPDATE
