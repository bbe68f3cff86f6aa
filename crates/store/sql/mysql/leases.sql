-- Reads every lease: who has what in flight, and how many each shard has published.
-- $1 the clock or NULL for the database's.
-- Index: none; the lease table is small. Locks nothing.
SELECT COALESCE($1, {clock}), lease.shard, lease.lease_until, lease.out_rows, lease.sent
FROM {outbox}_lease AS lease
