-- Lists the history of one business key, newest first.
-- $1 created at, $2 identity: what comes after. $3 identity, $4 key, $5 type, $6 topic: NULL is
-- all. $7 whether with payloads, $8 how many at the most, $12 code of the newest cause. $9 to $11
-- are
-- not asked.
-- Index: {outbox}_sent_key. Locks nothing.
SELECT event_id, topic, event_type, biz_key,
    CASE WHEN $7 THEN payload END AS payload,
    CASE WHEN $7 THEN payload_bytes END AS payload_bytes, headers,
    created_at, false AS out, attempts, NULL::bigint AS due_at, trail,
    broker_message_id, sent_at AS moved_at
FROM {outbox}_sent
WHERE biz_key = $4 AND created_at <= $1 AND (created_at, event_id) < ($1, $2)
    AND ($3::text IS NULL OR event_id = $3) AND ($4::text IS NULL OR biz_key = $4)
    AND ($5::text IS NULL OR event_type = $5) AND ($6::text IS NULL OR topic = $6)
    AND ($12::text IS NULL OR trail::json -> -1 -> 'cause' ->> 'code' = $12)
    AND ($9::bigint IS NULL OR $10::boolean IS NULL OR $11::bigint IS NULL OR true)
ORDER BY created_at DESC, event_id DESC
LIMIT $8
