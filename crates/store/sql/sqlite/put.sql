-- Puts an event down to be claimed at once.
-- ?1 the clock or NULL for the database's, ?2 to ?8 the event.
-- Index: none is read. Locks: the one writer.
INSERT INTO {outbox} (event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    created_at)
VALUES (?2, ?3, ?4, ?5, ?6, ?7, ?8,
    coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)))
