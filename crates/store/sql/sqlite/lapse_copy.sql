-- Sets the hot rows that a silent owner had in flight down as due: one attempt, unexplained.
-- ?1 the lease, ?2 now.
-- Index: the primary keys of the lease and of the hot table. Locks: the one writer.
INSERT INTO {outbox}_later (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, due_at, attempts, unexplained, fence, moved_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at, ?2, 1, 1, lease.fence, hot.created_at
FROM {outbox}_lease AS lease, json_each(lease.out) AS batch,
    json_each(batch.value, '$[1]') AS named, {outbox} AS hot
WHERE lease.name = ?1 AND hot.seq = named.value
ORDER BY hot.seq
