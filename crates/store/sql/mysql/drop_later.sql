-- Takes rows out of the later table.
-- The rows: their numbers.
-- Index: the primary key of the later table. Locks: the rows that go.
DELETE later
FROM {rows: number SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
