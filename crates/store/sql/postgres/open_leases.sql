-- Opens every lease for a change of the strategy, in one order for everybody.
-- $1 the clock or NULL for the database's.
-- Index: none; the lease table is small. Locks: all its rows.
SELECT lease.shard, lease.lease_until, lease.out_seq,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
FROM {outbox}_lease AS lease
ORDER BY lease.name
FOR UPDATE
