-- Opens later rows that are due as they were read, and passes over those that another has open.
-- The rows: their numbers, when each was due.
-- Index: the primary key of the later table. Locks: the rows that come back, and waits for none.
SELECT later.number
FROM {rows: number SIGNED, due_at SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
WHERE later.due_at = named.due_at
FOR UPDATE SKIP LOCKED
