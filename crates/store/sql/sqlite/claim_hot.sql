-- Reads the next hot rows. The lease says that they are ours: nothing is written.
-- ?1 the cursor, ?2 how many at the most.
-- Index: the primary key of the hot table. Locks nothing.
SELECT seq, event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at
FROM {outbox}
WHERE seq > ?1
ORDER BY seq
LIMIT ?2
