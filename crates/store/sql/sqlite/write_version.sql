-- Writes down that a version was applied.
-- ?1 the version.
-- Index: the primary key of the version table. Locks: the one writer.
INSERT INTO {outbox}_schema (version) VALUES (?1)
