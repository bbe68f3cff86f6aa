-- Reads the newest version that was applied.
-- Index: the primary key of the version table. Locks nothing.
SELECT MAX(version) FROM {outbox}_schema
