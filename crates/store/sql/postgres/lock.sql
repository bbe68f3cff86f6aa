-- Opens leases for a claim that writes, in one order for everybody.
-- $1 the clock or NULL for the database's, $2 shards, $3 those of which the rows in flight are
-- wanted.
-- Index: the primary key of the lease. Locks: the rows named.
SELECT lease.shard, lease.owner, lease.since, lease.lease_until,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    CASE WHEN lease.shard = ANY ($3::smallint[]) THEN lease.out_seq ELSE '{}' END AS out_seq,
    CASE WHEN lease.shard = ANY ($3::smallint[]) THEN lease.out_until ELSE '{}' END AS out_until
FROM {outbox}_lease AS lease
WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($2::smallint[]) AS named))
ORDER BY lease.name
FOR NO KEY UPDATE
