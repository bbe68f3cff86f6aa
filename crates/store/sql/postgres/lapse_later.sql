-- Makes later rows due that the last owners had in flight: nobody has them any more.
-- $1 shards, whose leases are open, $2 now.
-- Index: {outbox}_later_out. Locks: the rows named.
UPDATE {outbox}_later SET due_at = $2
WHERE unexplained > 0 AND due_at > $2 AND shard = ANY ($1::smallint[])
