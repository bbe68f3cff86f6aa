-- Reads the clock that rules.
-- $1 the clock or NULL for the database's.
-- Index: none is read. Locks nothing.
SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
