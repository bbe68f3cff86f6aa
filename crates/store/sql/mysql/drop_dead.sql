-- Takes rows out of what was given up.
-- The rows: their numbers.
-- Index: the primary key of the dead. Locks: the rows that go.
DELETE gone
FROM {rows: number SIGNED} AS named
STRAIGHT_JOIN {outbox}_dead AS gone FORCE INDEX (PRIMARY) ON gone.number = named.number
