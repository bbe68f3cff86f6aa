-- Sets refused hot rows down for another attempt.
-- ?1 [[seq, due, trail], …], ?2 the fence, ?3 now.
-- Index: the primary key of the hot table. Locks: the one writer.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, fence, trail, moved_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, ends.value ->> 1, 1, ?2, ends.value -> 2, ?3
FROM json_each(?1) AS ends CROSS JOIN {outbox} AS hot ON hot.seq = ends.value ->> 0
