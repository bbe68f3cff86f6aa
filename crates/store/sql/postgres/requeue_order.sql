-- Reads which of the named events are dead, in the order in which they were put.
-- $1 the identities.
-- Index: {outbox}_dead_id. Locks nothing.
WITH named AS MATERIALIZED (
    SELECT created_at, seq, event_id FROM {outbox}_dead WHERE event_id = ANY ($1::text[])
)
SELECT event_id FROM named ORDER BY created_at, seq, event_id
