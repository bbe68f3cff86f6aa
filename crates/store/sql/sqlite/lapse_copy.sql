-- Sets hot rows down as due that nobody settled in time: one attempt, unexplained.
-- ?1 the rows, as the lease row names them, ?2 the lease, ?3 now.
-- Index: the primary keys of the lease and of the hot table. Locks: the one writer.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, unexplained, fence, moved_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, ?3, 1, 1, lease.fence, hot.created_at
FROM {outbox}_lease AS lease, json_each(?1) AS batch,
    json_each(batch.value, '$[1]') AS named, {outbox} AS hot
WHERE lease.name = ?2 AND hot.seq = named.value
ORDER BY hot.seq
