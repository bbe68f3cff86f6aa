-- Counts who waits behind keys that are held among the first $2 hot rows of each shard.
-- $1 the keys; for each shard: #1 the shard.
-- Index: the primary key of the hot table. Locks nothing.
{each}
SELECT hot.biz_key, COUNT(*) AS behind
FROM (
    SELECT CAST(one.biz_key AS BINARY) AS biz_key FROM {outbox} AS one FORCE INDEX (PRIMARY)
    WHERE one.shard = #1 ORDER BY one.seq LIMIT $2
) AS hot
WHERE hot.biz_key IN ($1)
GROUP BY hot.biz_key
