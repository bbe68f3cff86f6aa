-- Tells whether a table is there.
-- $1 its name.
-- Index: the catalog's own. Locks nothing.
SELECT COUNT(*) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = $1
