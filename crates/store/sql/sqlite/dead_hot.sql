-- Gives hot rows up.
-- ?1 [[seq, attempts, trail], …], ?2 now.
-- Index: the primary key of the hot table. Locks: the one writer.
INSERT INTO {outbox}_dead (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, dead_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, ends.value ->> 1, ends.value -> 2, ?2
FROM json_each(?1) AS ends CROSS JOIN {outbox} AS hot ON hot.seq = ends.value ->> 0
