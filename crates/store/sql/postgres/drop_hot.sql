-- Takes rows out of the hot table.
-- $1 shards, $2 numbers.
-- Index: the primary key of the hot table. Locks: the rows that go.
DELETE FROM {outbox} AS hot
USING unnest($1::smallint[], $2::bigint[]) AS ends (shard, seq)
WHERE hot.shard = ends.shard AND hot.seq = ends.seq
