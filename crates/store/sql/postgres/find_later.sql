-- Lists later rows, newest first, as far back as $8.
-- $1 created at, $2 identity: what comes after. $3 whether with payloads, $4 how many at the most.
-- $5 key, $6 type, $7 topic: NULL is all. $9 code of the newest cause, $10 status,
-- $11 now.
-- Index: {outbox}_later_created. Locks nothing.
SELECT event_id, topic, event_type, biz_key, CASE WHEN $3 THEN payload END AS payload,
    CASE WHEN $3 THEN payload_bytes END AS payload_bytes, headers, created_at,
    CASE WHEN unexplained > 0 AND due_at > $11 THEN 'DISPATCHING'
        WHEN attempts = 0 THEN 'NEW' ELSE 'RETRY' END AS status,
    attempts, due_at, trail, NULL::text AS broker_message_id, moved_at
FROM {outbox}_later
WHERE created_at BETWEEN $8 AND $1 AND (created_at, event_id) < ($1, $2)
    AND ($5::text IS NULL OR biz_key = $5) AND ($6::text IS NULL OR event_type = $6)
    AND ($7::text IS NULL OR topic = $7)
    AND ($9::text IS NULL OR trail::json -> -1 -> 'cause' ->> 'code' = $9)
    AND ($10::text IS NULL OR $10 = CASE WHEN unexplained > 0 AND due_at > $11 THEN 'DISPATCHING'
        WHEN attempts = 0 THEN 'NEW' ELSE 'RETRY' END)
ORDER BY created_at DESC, event_id DESC
LIMIT $4
