-- Takes every shard from whoever had it last: what is settled under an old lease is stale; `mark`
-- tells the tallies in the same transaction. The fence is raised last, for an assignment sees those
-- before it.
-- $1 whether relays compete from here on.
-- Index: the primary key of the lease, which is small. Locks: its rows, which are open.
UPDATE {outbox}_lease
SET owner = '', since = CASE WHEN $1 THEN 0 ELSE fence + 1 END, lease_until = 0, out_rows = '',
    fence = fence + 1
WHERE shard >= 0
