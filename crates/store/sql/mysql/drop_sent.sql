-- Takes rows out of the history.
-- The rows: their numbers.
-- Index: the primary key of the history. Locks: the rows that go.
DELETE gone
FROM {rows: number SIGNED} AS named
STRAIGHT_JOIN {outbox}_sent AS gone FORCE INDEX (PRIMARY) ON gone.number = named.number
