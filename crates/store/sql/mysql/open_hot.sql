-- Opens hot rows that are to move. Whoever comes second waits, and finds them gone: so nothing is
-- copied twice, though the copy itself locks nothing that it reads. The move is
-- the mark, and a claim that is rolled back leaves none.
-- The rows: their numbers and shards.
-- Index: the primary key of the hot table. Locks: the rows named, in the order given.
SELECT hot.seq, hot.shard, hot.created_at, hot.event_id
FROM {rows: seq SIGNED, shard SIGNED} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
FOR UPDATE
