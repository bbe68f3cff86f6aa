-- Lists later rows, newest first. Without an identity only the newest $9 are looked at.
-- $1 created at, $2 identity: what comes after. $3 identity, $4 key, $5 type, $6 topic: NULL is
-- all. $7 whether with payloads, $8 how many at the most, $10 true for rows in flight, false for
-- others, $11 now, $12 code of the newest cause.
-- Index: the primary key of the later table. Locks nothing.
SELECT event_id, topic, event_type, biz_key,
    CASE WHEN $7 THEN payload END AS payload,
    CASE WHEN $7 THEN payload_bytes END AS payload_bytes, headers,
    created_at, unexplained > 0 AND due_at > $11 AS out, attempts, due_at, trail,
    NULL::text AS broker_message_id, moved_at
FROM (
    SELECT event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
        unexplained, attempts, due_at, trail, moved_at
    FROM {outbox}_later ORDER BY number DESC
    LIMIT CASE WHEN $3::text IS NULL THEN $9::bigint END
) AS later
WHERE (created_at, event_id) < ($1, $2)
    AND ($3::text IS NULL OR event_id = $3) AND ($4::text IS NULL OR biz_key = $4)
    AND ($5::text IS NULL OR event_type = $5) AND ($6::text IS NULL OR topic = $6)
    AND ($10::boolean IS NULL OR (unexplained > 0 AND due_at > $11) = $10)
    AND ($12::text IS NULL OR trail::json -> -1 -> 'cause' ->> 'code' = $12)
ORDER BY created_at DESC, event_id DESC
LIMIT $8
