-- Takes rows out of the hot table.
-- The rows: their numbers and shards.
-- Index: the primary key of the hot table. Locks: the rows that go.
DELETE hot
FROM {rows: seq SIGNED, shard SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
