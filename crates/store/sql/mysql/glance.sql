-- What a relay sees at one look: the clock, each shard's lease, and whether anything waits in the
-- shards that it holds.
-- $1 the clock or NULL for the database's, $2 the shards held, $3 the lowest place where a look
-- begins, $4 where it begins in each, $5 due times already seen.
-- Index: the primary key of the hot table, {outbox}_later_soon. Locks nothing.
SELECT COALESCE($1, {clock}) AS now, lease.shard, lease.owner, lease.since, lease.lease_until,
    (SELECT hot.seq FROM {outbox} AS hot FORCE INDEX (PRIMARY)
        WHERE hot.shard IN ($2) AND hot.seq > $3
            AND hot.seq > CAST(ELT(FIELD(hot.shard, $2), $4) AS SIGNED)
        ORDER BY hot.seq LIMIT 1) IS NOT NULL AS ahead,
    (SELECT later.due_at FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_soon)
        WHERE later.due_at > $5 AND later.shard IN ($2) ORDER BY later.due_at LIMIT 1) AS due,
    (SELECT MAX(later.number) FROM {outbox}_later AS later) AS newest
FROM {outbox}_lease AS lease WHERE lease.shard >= 0
