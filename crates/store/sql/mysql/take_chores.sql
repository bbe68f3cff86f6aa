-- Takes or renews the lease of the chores. No row found means that another holds it; one that
-- lasts longer than any was taken by a clock that was ahead.
-- $1 the clock or NULL for the database's, $2 the owner, $3 how long.
-- Index: the primary key of the lease. Locks: the one row.
UPDATE {outbox}_lease
SET lease_until = COALESCE($1, {clock}) + $3, owner = $2, fence = fence + 1
WHERE shard = -1 AND (owner = $2 OR lease_until <= COALESCE($1, {clock})
    OR lease_until > COALESCE($1, {clock}) + 10 * $3)
