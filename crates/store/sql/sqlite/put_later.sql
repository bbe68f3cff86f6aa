-- Puts an event down to be claimed at a moment.
-- ?1 the clock or NULL for the database's, ?2 to ?8 the event, ?9 when it is due.
-- Index: none is read. Locks: the one writer.
INSERT INTO {outbox}_later (event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    due_at, created_at, moved_at)
SELECT ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, clock.now, clock.now
FROM (SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)) AS now)
    AS clock
