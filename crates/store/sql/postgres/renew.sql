-- Renews leases, and says which hot rows are in flight where that has changed. A shard that does
-- not come back was lost.
-- $1 the owner, $2 until when, $3 shards, $4 their fences, $5 whether the rows changed;
-- $6 shards, $7 rows in flight, $8 until when.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.fence, named.changed
    FROM unnest($3::smallint[], $4::bigint[], $5::boolean[]) AS named (shard, fence, changed)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $1 AND lease.fence = named.fence
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET lease_until = $2,
    out_seq = CASE WHEN want.changed THEN ARRAY(
        SELECT flight.seq FROM unnest($6::smallint[], $7::bigint[], $8::bigint[])
            WITH ORDINALITY AS flight (shard, seq, until, place)
        WHERE flight.shard = want.shard ORDER BY flight.place) ELSE lease.out_seq END,
    out_until = CASE WHEN want.changed THEN ARRAY(
        SELECT flight.until FROM unnest($6::smallint[], $7::bigint[], $8::bigint[])
            WITH ORDINALITY AS flight (shard, seq, until, place)
        WHERE flight.shard = want.shard ORDER BY flight.place) ELSE lease.out_until END
FROM want
WHERE lease.name = want.name AND lease.owner = $1 AND lease.fence = want.fence
RETURNING want.shard
