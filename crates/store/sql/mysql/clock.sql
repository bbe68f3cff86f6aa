-- Reads the clock that rules.
-- $1 the clock or NULL for the database's.
-- Index: none is read. Locks nothing.
SELECT COALESCE($1, {clock})
