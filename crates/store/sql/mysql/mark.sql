-- Says in tallies whose the shards are now, and since when.
-- The rows: shards, whose leases and tallies are open.
-- Index: the primary keys of the lease and of the tally. Locks: the rows named.
UPDATE {rows: shard SIGNED} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
STRAIGHT_JOIN {outbox}_tally AS tally FORCE INDEX (PRIMARY) ON tally.shard = named.shard
SET tally.owner = lease.owner, tally.since = lease.since
