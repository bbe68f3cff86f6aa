-- Copies dead rows to the later ones under the same identity and sequence: due now, no attempts, the
-- trail kept.
-- $1 the clock or NULL for the database's; the rows: their numbers, places in line.
-- Index: the primary key of the dead. Locks: its own new rows, and the later table's
-- next number as `retry_hot` does.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, trail, moved_at)
SELECT dead.seq, dead.event_id, dead.topic, dead.event_type, dead.biz_key, dead.payload,
    dead.payload_bytes, dead.headers, dead.created_at,
    COALESCE($1, {clock}), dead.trail, COALESCE($1, {clock})
FROM {rows: number SIGNED, place SIGNED} AS named
STRAIGHT_JOIN {outbox}_dead AS dead FORCE INDEX (PRIMARY) ON dead.number = named.number
ORDER BY named.place
