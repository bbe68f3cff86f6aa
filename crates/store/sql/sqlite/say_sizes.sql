-- Says to the planner how large our tables are, where nobody has said it.
-- ?1 the names of our tables, as JSON, ?2 the size.
-- Index: none; a database has as many sizes as indexes. Locks: the one writer.
INSERT INTO sqlite_stat1 (tbl, idx, stat)
SELECT value, NULL, ?2 FROM json_each(?1)
WHERE value NOT IN (SELECT tbl FROM sqlite_stat1)
