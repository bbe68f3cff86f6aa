-- Takes hot rows out of flight that stay where they are.
-- The rows: shards, whose leases are open, and the rows in flight.
-- Index: the primary key of the lease. Locks: the rows named.
UPDATE {rows: shard SIGNED, out_rows CHAR} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
SET lease.out_rows = named.out_rows
