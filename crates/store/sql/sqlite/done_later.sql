-- Writes published later rows into the history.
-- ?1 [[number, broker id], …], ?2 now.
-- Index: the primary key of the later table. Locks: the one writer.
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, broker_message_id, sent_at)
SELECT later.seq, later.event_id, later.topic, later.event_type, later.biz_key, later.payload,
    later.payload_bytes, later.headers, later.created_at, later.attempts, later.trail,
    ends.value ->> 1, ?2
FROM json_each(?1) AS ends CROSS JOIN {outbox}_later AS later ON later.number = ends.value ->> 0
