-- Opens dead rows for a new life: whoever comes second waits, and finds them gone.
-- $1 the identities.
-- Index: {outbox}_dead_id. Locks: the rows named.
SELECT number, event_id FROM {outbox}_dead FORCE INDEX ({outbox}_dead_id)
WHERE event_id IN ($1)
FOR UPDATE
