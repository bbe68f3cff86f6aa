-- Writes down that a version was applied.
-- $1 the version.
-- Index: the primary key of the version table. Locks: its own new row.
INSERT INTO {outbox}_schema (version) VALUES ($1)
