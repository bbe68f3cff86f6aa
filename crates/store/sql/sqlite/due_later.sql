-- Reads which later rows are due, in the order in which they became so.
-- ?1 now, ?2 how many at the most.
-- Index: {outbox}_later_due. Locks nothing.
SELECT number, seq, topic, biz_key, unexplained,
    coalesce(octet_length(payload), octet_length(payload_bytes)) AS size
FROM {outbox}_later
WHERE due_at <= ?1
ORDER BY due_at, number
LIMIT ?2
