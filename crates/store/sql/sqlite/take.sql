-- Takes a lease: whoever held it before has an older fence from here on.
-- ?1 the lease, ?2 the owner, ?3 until when.
-- Index: the primary key of the lease. Locks: the one writer.
UPDATE {outbox}_lease SET owner = ?2, fence = fence + 1, lease_until = ?3, out = '[]'
WHERE name = ?1
RETURNING fence
