-- Reads which numbers hot rows got that were copied to the later ones.
-- The rows: their numbers when they were hot, when they were created, their identities.
-- Index: {outbox}_later_created. Locks nothing.
SELECT later.seq, later.number
FROM {rows: seq SIGNED, created_at SIGNED, event_id ID} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX ({outbox}_later_created)
    ON later.created_at = named.created_at AND later.event_id = named.event_id
WHERE later.seq = named.seq
