-- Reads how many shards the outbox was installed with; none, if any of them has lost its tally.
-- Index: the primary key of the tally; leases are few. Locks nothing.
SELECT CASE WHEN COUNT(tally.shard) = COUNT(*) THEN COUNT(*) ELSE 0 END
FROM {outbox}_lease AS lease LEFT JOIN {outbox}_tally AS tally ON tally.shard = lease.shard
WHERE lease.shard >= 0
