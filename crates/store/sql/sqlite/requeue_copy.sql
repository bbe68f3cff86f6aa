-- Gives dead rows a new life under the same identity and sequence, in the order in which they were
-- put: due now, no attempts, the trail kept.
-- ?1 the clock or NULL for the database's, ?2 the identities.
-- Index: {outbox}_dead_id. Locks: the one writer.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, trail, moved_at)
SELECT dead.seq, dead.event_id, dead.topic, dead.event_type, dead.biz_key, dead.payload,
    dead.payload_bytes, dead.headers, dead.created_at, clock.now, dead.trail, clock.now
FROM json_each(?2) AS named CROSS JOIN {outbox}_dead AS dead ON dead.event_id = named.value
CROSS JOIN (
    SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)) AS now
) AS clock
ORDER BY dead.created_at, dead.seq, dead.event_id
RETURNING event_id
