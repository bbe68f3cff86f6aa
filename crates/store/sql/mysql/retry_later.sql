-- Sets refused later rows back for another attempt.
-- $1 now; the rows: numbers, when they are due, their trails.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {rows: number SIGNED, due_at SIGNED, trail CHAR} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
SET later.due_at = named.due_at, later.unexplained = 0, later.trail = named.trail,
    later.moved_at = $1
