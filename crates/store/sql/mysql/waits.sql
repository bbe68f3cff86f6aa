-- Reads what waits in shards that nobody holds.
-- $1 due times already seen; for each: #1 the shard.
-- Index: the primary key of the hot table, {outbox}_later_due. Locks nothing.
{each}
SELECT lease.shard,
    (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY) WHERE hot.shard = #1
        ORDER BY hot.seq LIMIT 1) IS NOT NULL AS hot,
    (SELECT later.due_at FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_due)
        WHERE later.shard = #1 AND later.due_at > $1 ORDER BY later.due_at LIMIT 1) AS due
FROM {outbox}_lease AS lease WHERE lease.shard = #1
