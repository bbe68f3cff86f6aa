-- Opens leases that are to be taken, and then their tallies, and waits for nobody: what another has
-- open is left out.
-- $1 the clock or NULL for the database's, $2 shards.
-- Index: the primary keys of the lease and of the tally. Locks: the rows named.
WITH lease AS MATERIALIZED (
    SELECT lease.shard, lease.owner, lease.since, lease.lease_until, lease.out_seq, lease.out_until
    FROM {outbox}_lease AS lease
    WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($2::smallint[]) AS named))
    ORDER BY lease.name
    FOR NO KEY UPDATE SKIP LOCKED
),
tally AS MATERIALIZED (
    SELECT tally.shard FROM {outbox}_tally AS tally
    WHERE tally.shard = ANY (ARRAY(SELECT lease.shard FROM lease))
    ORDER BY tally.shard
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT lease.shard, lease.owner, lease.since, lease.lease_until,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    lease.out_seq, lease.out_until
FROM tally JOIN lease ON lease.shard = tally.shard
