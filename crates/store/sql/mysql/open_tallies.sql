-- Opens the tallies of shards whose leases are open, in one order for everybody.
-- The rows: shards.
-- Index: the primary key of the tally. Locks: the rows named.
SELECT tally.shard
FROM {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_tally AS tally FORCE INDEX (PRIMARY) ON tally.shard = named.shard
FOR UPDATE
