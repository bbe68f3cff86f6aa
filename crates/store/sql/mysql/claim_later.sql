-- Claims later rows: the attempt is counted here, and the lease is their due time.
-- $1 until when; the rows: their numbers and fences.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {rows: number SIGNED, fence SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
SET later.attempts = later.attempts + 1, later.unexplained = later.unexplained + 1,
    later.fence = named.fence, later.due_at = $1
