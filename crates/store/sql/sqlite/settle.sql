-- Opens a settlement: no row changed means that the fence is old and all of it is stale.
-- ?1 the clock or NULL for the database's, ?2 the lease, ?3 the owner, ?4 the fence,
-- ?5 how many were published, ?6 the hot rows in flight or NULL for no change.
-- Index: the primary key of the lease. Locks: the one writer.
UPDATE {outbox}_lease SET sent = sent + ?5, out = coalesce(?6, out)
WHERE name = ?2 AND owner = ?3 AND fence = ?4
RETURNING coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)) AS now
