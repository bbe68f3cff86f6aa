-- Reads the first and the last hot row of each shard, and since when anything is due there.
-- $1 now, $2 the hot rows in flight; for each shard: #1 the shard.
-- Index: the primary key of the hot table, {outbox}_later_due. Locks nothing.
{each}
SELECT
    (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY) WHERE hot.shard = #1
        ORDER BY hot.seq LIMIT 1) AS first,
    (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY) WHERE hot.shard = #1
        ORDER BY hot.seq DESC LIMIT 1) AS last,
    (SELECT hot.created_at FROM {outbox} AS hot FORCE INDEX (PRIMARY) WHERE hot.shard = #1
        AND hot.seq NOT IN ($2) ORDER BY hot.seq LIMIT 1) AS hot_due,
    (SELECT later.due_at FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_due)
        WHERE later.shard = #1 AND later.due_at <= $1
        ORDER BY later.due_at LIMIT 1) AS later_due
