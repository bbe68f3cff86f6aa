-- Reads which hot rows there are in stretches of numbers. Whoever reads uncommitted rows with it
-- sees what is going to be there as well.
-- For each stretch: #1 the shard, #2 above which number, #3 up to which.
-- Index: the primary key of the hot table. Locks nothing.
{each}
SELECT hot.shard, hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY)
WHERE hot.shard = #1 AND hot.seq > #2 AND hot.seq <= #3
