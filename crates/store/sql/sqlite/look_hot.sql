-- Looks at the next hot rows without their payloads.
-- ?1 the cursor, ?2 how many at the most.
-- Index: the primary key of the hot table. Locks nothing.
SELECT seq, topic, biz_key, coalesce(octet_length(payload), octet_length(payload_bytes)) AS size
FROM {outbox}
WHERE seq > ?1
ORDER BY seq
LIMIT ?2
