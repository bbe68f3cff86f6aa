-- Takes requeued rows out of the dead table.
-- ?1 the identities.
-- Index: {outbox}_dead_id. Locks: the one writer.
DELETE FROM {outbox}_dead WHERE event_id IN (SELECT value FROM json_each(?1))
