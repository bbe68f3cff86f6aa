-- Makes later rows due that are in flight for longer than they may be: nobody has them any more, or
-- a clock was ahead.
-- $1 now, $2 until when they may be; the rows: their numbers.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {rows: number SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
SET later.due_at = $1
WHERE later.unexplained > 0 AND later.due_at > $2
