-- Reads which hot rows the owner of a lease has in flight.
-- ?1 the lease.
-- Index: the primary key of the lease. Locks nothing.
SELECT out FROM {outbox}_lease WHERE name = ?1
