-- Tells whether a table is there.
-- ?1 its name.
-- Index: none; the schema is small. Locks nothing.
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1
