-- Takes every shard from whoever had it last: what is settled under an old lease is stale.
-- Index: none; the lease table is small. Locks: its rows, which are open.
UPDATE {outbox}_lease AS lease
SET owner = '', fence = lease.fence + 1, since = lease.fence + 1, lease_until = 0, out_seq = '{}',
    out_until = '{}'
WHERE lease.shard IS NOT NULL
