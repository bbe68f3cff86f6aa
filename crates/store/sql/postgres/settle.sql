-- Opens a settlement: a shard that does not come back has a newer fence, and all of it is stale.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 their fences, $5 how many
-- were published, $6 whether the rows in flight changed; $7 shards, $8 rows in flight, $9 until
-- when.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.fence, named.done, named.changed
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::boolean[])
        AS named (shard, fence, done, changed)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $2 AND lease.fence = named.fence
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET sent = lease.sent + want.done,
    out_seq = CASE WHEN want.changed THEN ARRAY(
        SELECT flight.seq FROM unnest($7::smallint[], $8::bigint[], $9::bigint[])
            WITH ORDINALITY AS flight (shard, seq, until, place)
        WHERE flight.shard = want.shard ORDER BY flight.place) ELSE lease.out_seq END,
    out_until = CASE WHEN want.changed THEN ARRAY(
        SELECT flight.until FROM unnest($7::smallint[], $8::bigint[], $9::bigint[])
            WITH ORDINALITY AS flight (shard, seq, until, place)
        WHERE flight.shard = want.shard ORDER BY flight.place) ELSE lease.out_until END
FROM want
WHERE lease.name = want.name AND lease.owner = $2 AND lease.fence = want.fence
RETURNING want.shard,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
