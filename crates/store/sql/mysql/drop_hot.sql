-- Takes rows of one shard out of the hot table: a list in one partition costs half of a join.
-- $1 the shard, $2 their numbers.
-- Index: the primary key of the hot table. Locks: the rows that go.
DELETE hot FROM {outbox} AS hot FORCE INDEX (PRIMARY)
WHERE hot.shard = $1 AND hot.seq IN ($2)
