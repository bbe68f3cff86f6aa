-- Renews leases under the newest claims' fences, and says which hot rows are in flight where that
-- has changed. Fewer rows found than named means that some were lost.
-- $1 the owner, $2 until when, $3 shards, $4 since when they are ours, $5 their fences, $6 the rows
-- in flight or NULL.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
UPDATE {outbox}_lease AS lease FORCE INDEX (PRIMARY)
SET lease.lease_until = $2,
    lease.fence = GREATEST(lease.fence, CAST(ELT(FIELD(lease.shard, $3), $5) AS SIGNED)),
    lease.out_rows = COALESCE(CONVERT(ELT(FIELD(lease.shard, $3), $6) USING ascii), lease.out_rows)
WHERE lease.shard IN ($3) AND lease.owner = $1
    AND lease.since = CAST(ELT(FIELD(lease.shard, $3), $4) AS SIGNED)
