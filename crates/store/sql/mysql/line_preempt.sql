-- Writes a relay's name into a line that has none, or one whose time is over or longer than any is.
-- $1 the relay, $2 until when, $3 the shard, $4 the clock or NULL for the database's, $5 how long a
-- name stands at the most.
-- Index: the primary key of the lease. Locks: the one row.
UPDATE {outbox}_lease AS lease SET lease.owner = $1, lease.lease_until = $2
WHERE lease.shard = $3 AND lease.since = 0 AND (lease.owner IN ('', $1)
    OR lease.lease_until NOT BETWEEN COALESCE($4, {clock}) + 1 AND COALESCE($4, {clock}) + $5)
