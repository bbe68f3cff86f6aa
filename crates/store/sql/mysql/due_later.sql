-- Reads which later rows of each shard are due beyond a place, in the order in which they became
-- so.
-- $1 now, $2 how many of each shard; for each: #1 the shard, #2 due time and #3 number: what comes
-- after.
-- Index: {outbox}_later_due. Locks nothing.
{each}
SELECT later.number, later.seq, later.topic, later.biz_key, later.unexplained,
    COALESCE(LENGTH(later.payload), LENGTH(later.payload_bytes)) AS size, later.due_at, later.shard
FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_due)
WHERE later.shard = #1 AND (later.due_at = #2 AND later.number > #3
    OR later.due_at > #2 AND later.due_at <= $1)
ORDER BY later.due_at, later.number
LIMIT $2
