-- Opens rows in flight for their settlement. A row that does not come back was claimed again since.
-- The rows: their numbers, fences, events.
-- Index: the primary key of the later table. Locks: the rows named, in one order for everybody.
SELECT later.number
FROM {rows: number SIGNED, fence SIGNED, event_id ID} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
WHERE later.fence = named.fence AND later.event_id = named.event_id AND later.unexplained > 0
FOR UPDATE
