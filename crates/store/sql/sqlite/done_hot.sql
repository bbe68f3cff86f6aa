-- Writes published hot rows into the history.
-- ?1 [[seq, broker id], …], ?2 now.
-- Index: the primary key of the hot table. Locks: the one writer.
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, broker_message_id, sent_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, 1, ends.value ->> 1, ?2
FROM json_each(?1) AS ends CROSS JOIN {outbox} AS hot ON hot.seq = ends.value ->> 0
