-- Counts who waits behind keys that are held among the first $2 hot rows of each shard.
-- $1 the keys.
-- Index: the primary key of the hot table. Locks nothing.
SELECT hot.biz_key, count(*) AS behind
FROM {outbox}_lease AS lease CROSS JOIN LATERAL (
    SELECT one.biz_key FROM {outbox} AS one WHERE one.shard = lease.shard
    ORDER BY one.shard, one.seq LIMIT $2
) AS hot
WHERE lease.shard IS NOT NULL AND hot.biz_key = ANY ($1)
GROUP BY hot.biz_key
