-- Takes rows out of the history.
-- The rows: their numbers and slots.
-- Index: the primary key of the history. Locks: the rows that go.
DELETE gone
FROM {rows: number SIGNED, slot SIGNED} AS named
STRAIGHT_JOIN {outbox}_sent AS gone FORCE INDEX (PRIMARY)
    ON gone.number = named.number AND gone.slot = named.slot
