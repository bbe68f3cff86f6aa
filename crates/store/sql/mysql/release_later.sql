-- Sets later rows back as if they had not been claimed.
-- The rows: their numbers, when they are due.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {rows: number SIGNED, due_at SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
SET later.due_at = named.due_at, later.attempts = later.attempts - 1, later.unexplained = 0
WHERE later.unexplained <> 0
