-- Makes this connection read the sizes again; others read them when the schema changes.
-- No parameters.
-- Index: none; nothing is measured. Locks: the one writer.
ANALYZE sqlite_schema
