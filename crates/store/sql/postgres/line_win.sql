-- Opens lines whose fences are as they were seen. Whoever comes second waits, and finds that they
-- are not.
-- $1 the clock or NULL for the database's, $2 shards, $3 their fences.
-- Index: the primary key of the lease. Locks: the rows that come back, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name
    FROM unnest($2::smallint[], $3::bigint[]) AS named (shard, fence)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.fence = named.fence AND lease.since = 0
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease SET fence = lease.fence + 1
FROM want
WHERE lease.name = want.name
RETURNING lease.shard, lease.fence,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now,
    lease.out_seq, lease.out_until, lease.out_fence
