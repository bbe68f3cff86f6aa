-- Hands a lease over, so that nobody waits for it to run out.
-- ?1 the lease, ?2 the owner, ?3 the fence.
-- Index: the primary key of the lease. Locks: the one writer.
UPDATE {outbox}_lease SET lease_until = 0, out = '[]'
WHERE name = ?1 AND owner = ?2 AND fence = ?3
