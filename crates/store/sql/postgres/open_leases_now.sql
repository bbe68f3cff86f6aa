-- Opens leases, with the rows in flight, and waits for nobody: what another has open is left out.
-- $1 the clock or NULL for the database's, $2 shards.
-- Index: the primary key of the lease. Locks: the rows named.
SELECT lease.shard, lease.owner, lease.since, lease.lease_until,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    lease.out_seq, lease.out_until
FROM {outbox}_lease AS lease
WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($2::smallint[]) AS named))
ORDER BY lease.name
FOR NO KEY UPDATE SKIP LOCKED
