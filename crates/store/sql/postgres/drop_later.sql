-- Takes rows out of the later table.
-- $1 their numbers.
-- Index: the primary key of the later table. Locks: the rows that go.
DELETE FROM {outbox}_later WHERE number = ANY ($1)
