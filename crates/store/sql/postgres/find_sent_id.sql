-- Lists the history of one identity: in the 4.096 s that it begins with, and where those are that
-- were created at another time.
-- $1 created at, $2 identity: what comes after. $3 whether with payloads, $4 how many at the most.
-- $5 key, $6 type, $7 topic: NULL is all. $8 identity, $9 code of the newest cause.
-- Index: {outbox}_sent_id, {outbox}_sent_created. Locks nothing.
SELECT found.event_id, found.topic, found.event_type, found.biz_key,
    CASE WHEN $3 THEN found.payload END AS payload,
    CASE WHEN $3 THEN found.payload_bytes END AS payload_bytes, found.headers, found.created_at,
    'SENT' AS status, found.attempts, NULL::bigint AS due_at, found.trail,
    found.broker_message_id, found.sent_at AS moved_at
FROM (
    SELECT event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
        attempts, trail, broker_message_id, sent_at
    FROM {outbox}_sent
    WHERE created_at BETWEEN 1099511627776 AND 17592186044415
        AND created_at BETWEEN
            ('x0000000' || left($8, 8) || substr($8, 10, 1))::bit(64)::bigint << 12
            AND (('x0000000' || left($8, 8) || substr($8, 10, 1))::bit(64)::bigint << 12) + 4095
        AND event_id = $8
    UNION ALL
    SELECT event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
        attempts, trail, broker_message_id, sent_at
    FROM {outbox}_sent
    WHERE event_id = $8 AND NOT (created_at BETWEEN 1099511627776 AND 17592186044415
        AND starts_with(event_id, '0' || to_hex(created_at >> 16) || '-'
            || to_hex((created_at >> 12) & 15)))
) AS found
WHERE (found.created_at + 0, found.event_id) < ($1, $2)
    AND ($5::text IS NULL OR found.biz_key = $5) AND ($6::text IS NULL OR found.event_type = $6)
    AND ($7::text IS NULL OR found.topic = $7)
    AND ($9::text IS NULL OR found.trail::json -> -1 -> 'cause' ->> 'code' = $9)
ORDER BY found.created_at + 0 DESC, found.event_id DESC
LIMIT $4
