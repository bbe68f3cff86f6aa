-- Takes or renews the lease of the chores. No row changed means that another holds it; one that
-- lasts longer than any was taken by a clock that was ahead.
-- $1 the clock or NULL for the database's, $2 the owner, $3 how long.
-- Index: the primary key of the lease. Locks: the one row.
UPDATE {outbox}_lease AS lease
SET owner = $2, fence = lease.fence + 1, lease_until = clock.now + $3
FROM (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
) AS clock
WHERE lease.name = 'chores' AND (lease.owner = $2 OR lease.lease_until <= clock.now
    OR lease.lease_until > clock.now + 10 * $3)
RETURNING clock.now
