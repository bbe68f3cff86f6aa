-- Reads which new later rows are due before a place.
-- $1 above which number, $2 shards, $3 due up to when.
-- Index: the primary key of the later table. Locks nothing.
SELECT later.number, later.seq, later.topic, later.biz_key, later.unexplained,
    COALESCE(LENGTH(later.payload), LENGTH(later.payload_bytes)) AS size, later.due_at, later.shard
FROM {outbox}_later AS later FORCE INDEX (PRIMARY)
WHERE later.number > $1 AND later.due_at <= $3 AND later.shard IN ($2)
ORDER BY later.number
