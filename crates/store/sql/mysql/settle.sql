-- Counts what was published in shards that are still ours, and tells the clock: it is what the
-- server answers as the last identity. Fewer rows found than named means that some were lost.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours, $5
-- how many were published.
-- Index: the primary key of the tally. Locks: the rows named, in one order for everybody.
UPDATE {outbox}_tally AS tally FORCE INDEX (PRIMARY)
SET tally.sent = tally.sent + CAST(ELT(FIELD(tally.shard, $3), $5) AS SIGNED)
    + 0 * LAST_INSERT_ID(COALESCE($1, {clock}))
WHERE tally.shard IN ($3) AND tally.owner = $2
    AND tally.since = CAST(ELT(FIELD(tally.shard, $3), $4) AS SIGNED)
