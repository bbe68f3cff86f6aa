-- Forgets what ANALYZE measured of our tables, unless it is the size that we said ourselves.
-- ?1 the names of our tables, as JSON, ?2 the size that we say.
-- Index: none; a database has as many sizes as indexes. Locks: the one writer.
DELETE FROM sqlite_stat1
WHERE tbl IN (SELECT value FROM json_each(?1)) AND (idx IS NOT NULL OR stat <> ?2)
