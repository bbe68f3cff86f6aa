-- What a relay sees at one look: the clock, each shard's lease, and whether anything waits.
-- $1 the clock or NULL for the database's, $2 the owner, $3 due times already seen; for each shard:
-- #1 the shard, #2 where its look begins.
-- Index: the primary keys of the lease and of the hot table, {outbox}_later_due. Locks nothing.
{each}
SELECT COALESCE($1, {clock}) AS now, lease.shard, lease.owner, lease.since, lease.lease_until,
    CASE WHEN lease.owner = $2 AND lease.lease_until > COALESCE($1, {clock}) THEN 1
        ELSE (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY) WHERE hot.shard = #1
            ORDER BY hot.seq LIMIT 1) IS NOT NULL END AS hot,
    (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY)
        WHERE hot.shard = #1 AND hot.seq > #2 ORDER BY hot.seq LIMIT 1) IS NOT NULL AS ahead,
    (SELECT later.due_at FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_due)
        WHERE later.shard = #1 AND later.due_at > $3 ORDER BY later.due_at LIMIT 1) AS due,
    (SELECT MAX(later.number) FROM {outbox}_later AS later) AS newest
FROM {outbox}_lease AS lease WHERE lease.shard = #1
