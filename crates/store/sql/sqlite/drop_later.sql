-- Takes rows out of the later table.
-- ?1 their numbers.
-- Index: the primary key of the later table. Locks: the one writer.
DELETE FROM {outbox}_later WHERE number IN (SELECT value FROM json_each(?1))
