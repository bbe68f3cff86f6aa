-- Makes later rows due that the last owners had in flight: nobody has them any more.
-- $1 shards, whose leases are open, $2 now.
-- Index: {outbox}_later_out, which is small; the sum keeps another index from being taken.
-- Locks: the rows named.
UPDATE {outbox}_later SET due_at = $2
WHERE unexplained > 0 AND due_at > $2 AND shard + 0 = ANY ($1::smallint[]::integer[])
