-- Reads which of the named events are dead, in the order in which they were put.
-- $1 the identities.
-- Index: {outbox}_dead_id. Locks nothing.
SELECT event_id FROM {outbox}_dead FORCE INDEX ({outbox}_dead_id)
WHERE event_id IN ($1)
ORDER BY created_at, seq, event_id
