-- Reads which hot rows in flight are still there.
-- The rows: their numbers and shards.
-- Index: the primary key of the hot table. Locks nothing.
SELECT hot.seq, hot.shard
FROM {rows: seq SIGNED, shard SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
