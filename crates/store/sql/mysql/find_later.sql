-- Lists later rows, newest first, as far back as $8.
-- $1 created at, $2 identity: what comes after. $3 whether with payloads, $4 how many at the most.
-- $5 key, $6 type, $7 topic: NULL is all. $9 code of the newest cause, $10 status,
-- $11 now.
-- Index: {outbox}_later_created. Locks nothing.
SELECT event_id, topic, event_type, biz_key, CASE WHEN $3 THEN payload END AS payload,
    CASE WHEN $3 THEN payload_bytes END AS payload_bytes, headers, created_at,
    CASE WHEN unexplained > 0 AND due_at > $11 THEN 'DISPATCHING'
        WHEN attempts = 0 THEN 'NEW' ELSE 'RETRY' END AS status,
    attempts, due_at, trail, NULL AS broker_message_id, moved_at
FROM {outbox}_later FORCE INDEX ({outbox}_later_created)
WHERE created_at BETWEEN $8 AND $1 AND (created_at < $1 OR event_id < $2)
    AND ($5 IS NULL OR biz_key = $5 AND LENGTH(biz_key) = LENGTH($5))
    AND ($6 IS NULL OR event_type = $6 AND LENGTH(event_type) = LENGTH($6))
    AND ($7 IS NULL OR topic = $7 AND LENGTH(topic) = LENGTH($7))
    AND ($9 IS NULL OR JSON_UNQUOTE(JSON_EXTRACT(trail,
        CONCAT('$[', GREATEST(JSON_LENGTH(trail), 1) - 1, '].cause.code'))) = $9)
    AND ($10 IS NULL OR $10 = CASE WHEN unexplained > 0 AND due_at > $11 THEN 'DISPATCHING'
        WHEN attempts = 0 THEN 'NEW' ELSE 'RETRY' END)
ORDER BY created_at DESC, event_id DESC
LIMIT $4
