-- Reads hot rows by number.
-- ?1 their numbers.
-- Index: the primary key of the hot table. Locks nothing.
SELECT seq, event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at
FROM {outbox}
WHERE seq IN (SELECT value FROM json_each(?1))
