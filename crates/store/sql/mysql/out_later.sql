-- Reads which later rows of shards are in flight for longer than they may be.
-- $1 until when they may be, $2 shards.
-- Index: {outbox}_later_out, which is small. Locks nothing.
SELECT later.number FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_out)
WHERE later.unexplained > 0 AND later.due_at > $1 AND later.shard IN ($2)
