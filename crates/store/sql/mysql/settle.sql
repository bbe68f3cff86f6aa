-- Counts what was published in shards that are still ours, and tells the clock: it is what the
-- server answers as the last identity. Fewer rows found than named means that some were lost.
-- $1 the clock or NULL for the database's, $2 the owner; the rows: shards, since when they are
-- ours, how many were published.
-- Index: the primary key of the tally. Locks: the rows named, in one order for everybody.
UPDATE {rows: shard SIGNED, since SIGNED, done SIGNED} AS named
STRAIGHT_JOIN {outbox}_tally AS tally FORCE INDEX (PRIMARY) ON tally.shard = named.shard
SET tally.sent = tally.sent + named.done + 0 * LAST_INSERT_ID(COALESCE($1, {clock}))
WHERE tally.owner = $2 AND tally.since = named.since
