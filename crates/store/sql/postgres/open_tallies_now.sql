-- Opens the tallies of shards whose leases are open, and waits for nobody: what another has open is
-- left out.
-- $1 shards.
-- Index: the primary key of the tally. Locks: the rows named.
SELECT tally.shard
FROM {outbox}_tally AS tally
WHERE tally.shard = ANY ($1::smallint[])
ORDER BY tally.shard
FOR NO KEY UPDATE SKIP LOCKED
