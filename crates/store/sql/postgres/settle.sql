-- Opens a settlement: a shard that does not come back was taken since, and all of it is stale.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours,
-- $5 how many were published.
-- Index: the primary key of the tally. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT tally.shard, named.done
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[]) AS named (shard, since, done)
    JOIN {outbox}_tally AS tally ON tally.shard = named.shard
    WHERE tally.owner = $2 AND tally.since = named.since
    ORDER BY tally.shard
    FOR NO KEY UPDATE OF tally
)
UPDATE {outbox}_tally AS tally SET sent = tally.sent + want.done
FROM want
WHERE tally.shard = want.shard
RETURNING want.shard,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
