-- Reads which later rows the last owners of shards had in flight.
-- $1 now, $2 shards, whose leases are open.
-- Index: {outbox}_later_out, which is small. Locks nothing.
SELECT later.number FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_out)
WHERE later.unexplained > 0 AND later.due_at > $1 AND later.shard IN ($2)
