-- Tells whether a table is there.
-- $1 its name.
-- Index: the catalog's own. Locks nothing.
SELECT to_regclass($1) IS NOT NULL
