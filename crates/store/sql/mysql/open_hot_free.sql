-- Opens hot rows that are to move, and passes over those that another has open.
-- The rows: their numbers and shards.
-- Index: the primary key of the hot table. Locks: the rows that come back, and waits for none.
SELECT hot.seq, hot.shard, hot.created_at, hot.event_id
FROM {rows: seq SIGNED, shard SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
FOR UPDATE SKIP LOCKED
