-- Writes down what open lines say: their fences, and which hot rows are in flight.
-- $1 the relay whose name in them ends; the rows: shards, the newest claims' fences, the rows in
-- flight.
-- Index: the primary key of the lease. Locks: the rows named, which are open.
UPDATE {rows: shard SIGNED, fence SIGNED, out_rows CHAR} AS named
STRAIGHT_JOIN {outbox}_lease AS lease FORCE INDEX (PRIMARY) ON lease.shard = named.shard
SET lease.fence = named.fence, lease.out_rows = named.out_rows,
    lease.owner = CASE WHEN lease.owner = $1 THEN '' ELSE lease.owner END
