-- Reads which hot rows there are in stretches of numbers. Whoever reads uncommitted rows with it
-- sees what is going to be there as well.
-- $1 shards; for each stretch: #1 above which number, #2 up to which.
-- Index: the primary key of the hot table. Locks nothing.
{each}
SELECT hot.shard, hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY)
WHERE hot.shard IN ($1) AND hot.seq > #1 AND hot.seq <= #2
