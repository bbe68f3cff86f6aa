-- Makes later rows due that the last owners had in flight: nobody has them any more.
-- $1 now; the rows: their numbers.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {rows: number SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
SET later.due_at = $1
WHERE later.unexplained > 0 AND later.due_at > $1
