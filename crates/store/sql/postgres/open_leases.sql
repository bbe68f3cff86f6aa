-- Opens leases for a claim that writes, and then their tallies, each in one order for everybody.
-- $1 the clock or NULL for the database's, $2 shards, $3 those of which the rows in flight are
-- wanted.
-- Index: the primary keys of the lease and of the tally. Locks: the rows named.
WITH lease AS MATERIALIZED (
    SELECT lease.shard, lease.owner, lease.since, lease.lease_until, lease.out_seq, lease.out_until
    FROM {outbox}_lease AS lease
    WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($2::smallint[]) AS named))
    ORDER BY lease.name
    FOR NO KEY UPDATE
),
tally AS MATERIALIZED (
    SELECT tally.shard FROM {outbox}_tally AS tally
    WHERE tally.shard = ANY (ARRAY(SELECT lease.shard FROM lease))
    ORDER BY tally.shard
    FOR NO KEY UPDATE
)
SELECT lease.shard, lease.owner, lease.since, lease.lease_until,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    CASE WHEN lease.shard = ANY ($3::smallint[]) THEN lease.out_seq ELSE '{}' END AS out_seq,
    CASE WHEN lease.shard = ANY ($3::smallint[]) THEN lease.out_until ELSE '{}' END AS out_until
FROM tally JOIN lease ON lease.shard = tally.shard
