-- Takes hot rows out of flight that stay where they are.
-- $1 the owner, $2 shards, $3 since when they are ours, $4 the rows.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name
    FROM unnest($2::smallint[], $3::bigint[]) AS named (shard, since)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $1 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET out_seq = ARRAY(
        SELECT flight.seq FROM unnest(lease.out_seq) WITH ORDINALITY AS flight (seq, place)
        WHERE flight.seq <> ALL ($4::bigint[]) ORDER BY flight.place),
    out_until = ARRAY(
        SELECT flight.until FROM unnest(lease.out_seq, lease.out_until)
            WITH ORDINALITY AS flight (seq, until, place)
        WHERE flight.seq <> ALL ($4) ORDER BY flight.place)
FROM want
WHERE lease.name = want.name
