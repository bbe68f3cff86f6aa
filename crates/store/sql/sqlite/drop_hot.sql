-- Takes rows out of the hot table.
-- ?1 their numbers.
-- Index: the primary key of the hot table. Locks: the one writer.
DELETE FROM {outbox} WHERE seq IN (SELECT value FROM json_each(?1))
