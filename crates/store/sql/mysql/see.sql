-- What a competing relay sees of each shard at one look: the clock, its line, when the first and
-- the last claim end that have hot rows in flight, and whether anything waits.
-- $1 the clock or NULL for the database's; for each: #1 the shard, #2 where the look begins.
-- Index: the primary key of the hot table, {outbox}_later_due. Locks nothing.
{each}
SELECT COALESCE($1, {clock}) AS now, lease.shard,
    (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY)
        WHERE hot.shard = #1 AND hot.seq > #2 ORDER BY hot.seq LIMIT 1) IS NOT NULL AS ahead,
    (SELECT later.due_at FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_due)
        WHERE later.shard = #1 ORDER BY later.due_at LIMIT 1) AS due,
    lease.fence,
    CAST(NULLIF(SUBSTRING_INDEX(SUBSTRING_INDEX(lease.out_rows, ':', 2), ':', -1), '')
        AS SIGNED) AS ends_first,
    CAST(NULLIF(SUBSTRING_INDEX(SUBSTRING_INDEX(lease.out_rows, ':', -2), ':', 1), '')
        AS SIGNED) AS ends_last
FROM {outbox}_lease AS lease WHERE lease.shard = #1
