-- Renews leases under the newest claims' fences, and says which hot rows are in flight where that
-- has changed. A shard that does not come back was lost.
-- $1 the owner, $2 until when, $3 shards, $4 since when they are ours, $5 their fences, $6 whether
-- the rows changed, $7 from where and $8 up to where they stand among $9, the rows in flight, and
-- $10, until when they are.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.since, named.fence, named.changed, named.first, named.last
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::integer[],
        $8::integer[]) AS named (shard, since, fence, changed, first, last)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $1 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET lease_until = $2, fence = greatest(lease.fence, want.fence),
    out_seq = CASE WHEN want.changed THEN ($9::bigint[])[want.first:want.last]
        ELSE lease.out_seq END,
    out_until = CASE WHEN want.changed THEN ($10::bigint[])[want.first:want.last]
        ELSE lease.out_until END
FROM want
WHERE lease.name = want.name AND lease.owner = $1 AND lease.since = want.since
RETURNING want.shard
