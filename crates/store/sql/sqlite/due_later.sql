-- Reads which later rows are due, in the order in which they became so.
-- ?1 now. The reader stops when its claim is full; a bound here would let the rows of one lane
-- hide those of another.
-- Index: {outbox}_later_due. Locks nothing.
SELECT number, seq, topic, biz_key, unexplained,
    coalesce(octet_length(payload), octet_length(payload_bytes)) AS size
FROM {outbox}_later
WHERE due_at <= ?1
ORDER BY due_at, number
