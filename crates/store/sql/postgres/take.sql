-- Takes leases: whoever held them before has an older fence from here on.
-- $1 shards, whose leases and tallies are open, $2 the owner, $3 until when.
-- Index: the primary keys of the lease and of the tally. Locks: the rows named.
WITH taken AS (
    UPDATE {outbox}_lease AS lease
    SET owner = $2, fence = lease.fence + 1, since = lease.fence + 1, lease_until = $3,
        out_seq = '{}', out_until = '{}'
    WHERE lease.name = ANY (ARRAY(SELECT 'shard:' || named FROM unnest($1::smallint[]) AS named))
    RETURNING lease.shard, lease.fence
)
UPDATE {outbox}_tally AS tally SET owner = $2, since = taken.fence
FROM taken
WHERE tally.shard = taken.shard
RETURNING taken.shard, taken.fence
