-- Takes or renews the lease of the chores. No row changed means that another holds it; one that
-- lasts longer than any was taken by a clock that was ahead.
-- ?1 the clock or NULL for the database's, ?2 the owner, ?3 how long.
-- Index: the primary key of the lease. Locks: the one writer.
WITH clock (now) AS (
    SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
)
UPDATE {outbox}_lease
SET owner = ?2, fence = fence + 1, lease_until = clock.now + ?3
FROM clock
WHERE name = 'chores'
    AND (owner = ?2 OR lease_until <= clock.now OR lease_until > clock.now + 10 * ?3)
RETURNING lease_until - ?3 AS now
