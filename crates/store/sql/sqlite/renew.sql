-- Renews a lease under the newest claim's fence, and says which hot rows are in flight.
-- ?1 the lease, ?2 the owner, ?3 the fence, ?4 until when, ?5 the rows or NULL for no change.
-- Index: the primary key of the lease. Locks: the one writer.
UPDATE {outbox}_lease SET fence = ?3, lease_until = ?4, out = coalesce(?5, out)
WHERE name = ?1 AND owner = ?2 AND fence <= ?3
