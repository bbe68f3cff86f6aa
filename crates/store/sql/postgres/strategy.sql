-- Reads with which strategy the outbox is claimed, and keeps it so until the transaction ends. NULL
-- is that nobody has claimed from it.
-- $1 the clock or NULL for the database's.
-- Index: the primary key of the lease. Locks: the one row, which others may read meanwhile.
SELECT nullif(lease.owner, '') AS strategy,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
FROM {outbox}_lease AS lease WHERE lease.name = 'strategy'
FOR SHARE
