-- Renews leases under the newest claims' fences, and says which hot rows are in flight where that
-- has changed. A shard that does not come back was lost.
-- $1 the owner, $2 until when, $3 shards, $4 since when they are ours, $5 their fences, $6 whether
-- the rows changed; $7 shards, $8 rows in flight, $9 until when.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.since, named.fence, named.changed
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::boolean[])
        AS named (shard, since, fence, changed)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $1 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET lease_until = $2, fence = greatest(lease.fence, want.fence),
    out_seq = CASE WHEN want.changed THEN ARRAY(
        SELECT flight.seq FROM unnest($7::smallint[], $8::bigint[], $9::bigint[])
            WITH ORDINALITY AS flight (shard, seq, until, place)
        WHERE flight.shard = want.shard ORDER BY flight.place) ELSE lease.out_seq END,
    out_until = CASE WHEN want.changed THEN ARRAY(
        SELECT flight.until FROM unnest($7::smallint[], $8::bigint[], $9::bigint[])
            WITH ORDINALITY AS flight (shard, seq, until, place)
        WHERE flight.shard = want.shard ORDER BY flight.place) ELSE lease.out_until END
FROM want
WHERE lease.name = want.name AND lease.owner = $1 AND lease.since = want.since
RETURNING want.shard
