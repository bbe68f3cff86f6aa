-- Claims later rows: the attempt is counted here, and the lease is their due time.
-- ?1 their numbers, ?2 the fence, ?3 until when.
-- Index: the primary key of the later table. Locks: the one writer.
UPDATE {outbox}_later
SET attempts = attempts + 1, unexplained = unexplained + 1, fence = ?2, due_at = ?3
WHERE number IN (SELECT value FROM json_each(?1))
RETURNING number, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    created_at, attempts, trail, unexplained - 1, seq
