-- Lists the dead rows of one identity.
-- ?1 created at, ?2 identity: what comes after. ?3 identity, ?4 key, ?5 type, ?6 topic: NULL is
-- all but ?3. ?7 whether with payloads, ?8 how many at the most, ?12 code of the newest cause.
-- Index: {outbox}_dead_id. Locks nothing.
SELECT event_id, topic, event_type, biz_key, iif(?7, payload, NULL) AS payload,
    iif(?7, payload_bytes, NULL) AS payload_bytes, headers, created_at, 'DEAD' AS status, attempts,
    NULL AS due_at, trail, NULL AS broker_message_id, dead_at AS moved_at
FROM {outbox}_dead
WHERE event_id = ?3 AND (+created_at, event_id) < (?1, ?2)
    AND (?4 IS NULL OR biz_key = ?4)
    AND (?5 IS NULL OR event_type = ?5) AND (?6 IS NULL OR topic = ?6)
    AND (?12 IS NULL OR json_extract(trail, '$[#-1].cause.code') = ?12)
ORDER BY +created_at DESC, event_id DESC
LIMIT ?8
