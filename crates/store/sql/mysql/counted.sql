-- Reads which shards were still ours when what was published in them was to be counted.
-- $1 the owner; the rows: shards, since when they are ours.
-- Index: the primary key of the tally. Locks nothing.
SELECT tally.shard
FROM {rows: shard SIGNED, since SIGNED} AS named
STRAIGHT_JOIN {outbox}_tally AS tally FORCE INDEX (PRIMARY) ON tally.shard = named.shard
WHERE tally.owner = $1 AND tally.since = named.since
