-- Lists later rows, newest first. Without an identity only the newest ?9 are looked at.
-- ?1 created at, ?2 identity: what comes after. ?3 identity, ?4 key, ?5 type, ?6 topic: NULL is
-- all. ?7 whether with payloads, ?8 how many at the most, ?10 1 for rows in flight, 0 for others,
-- ?11 now, ?12 code of the newest cause.
-- Index: the primary key of the later table. Locks nothing.
WITH page (number) AS MATERIALIZED (
    SELECT number FROM (
        SELECT number, event_id, topic, event_type, biz_key, created_at, unexplained, due_at, trail
        FROM {outbox}_later
        ORDER BY number DESC LIMIT iif(?3 IS NULL, ?9, -1)
    )
    WHERE (created_at, event_id) < (?1, ?2)
        AND (?3 IS NULL OR event_id = ?3) AND (?4 IS NULL OR biz_key = ?4)
        AND (?5 IS NULL OR event_type = ?5) AND (?6 IS NULL OR topic = ?6)
        AND (?10 IS NULL OR (unexplained > 0 AND due_at > ?11) = ?10)
        AND (?12 IS NULL OR json_extract(trail, '$[#-1].cause.code') = ?12)
    ORDER BY created_at DESC, event_id DESC
    LIMIT ?8
)
SELECT event_id, topic, event_type, biz_key, iif(?7, payload, NULL) AS payload,
    iif(?7, payload_bytes, NULL) AS payload_bytes, headers, created_at,
    unexplained > 0 AND due_at > ?11 AS out, attempts, due_at, trail, NULL AS broker_message_id,
    moved_at
FROM page CROSS JOIN {outbox}_later AS later ON later.number = page.number
