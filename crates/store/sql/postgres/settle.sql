-- Opens a settlement: a shard that does not come back was taken since, and all of it is stale.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours,
-- $5 how many were published; $6 the hot rows that are no longer in flight but stay.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.since, named.done
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[]) AS named (shard, since, done)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $2 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET sent = lease.sent + want.done,
    out_seq = CASE WHEN cardinality($6::bigint[]) = 0 THEN lease.out_seq ELSE ARRAY(
        SELECT flight.seq FROM unnest(lease.out_seq) WITH ORDINALITY AS flight (seq, place)
        WHERE flight.seq <> ALL ($6) ORDER BY flight.place) END,
    out_until = CASE WHEN cardinality($6::bigint[]) = 0 THEN lease.out_until ELSE ARRAY(
        SELECT flight.until FROM unnest(lease.out_seq, lease.out_until)
            WITH ORDINALITY AS flight (seq, until, place)
        WHERE flight.seq <> ALL ($6) ORDER BY flight.place) END
FROM want
WHERE lease.name = want.name AND lease.owner = $2 AND lease.since = want.since
RETURNING want.shard,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
