-- Reads which later rows are due beyond a place, in the order in which they became so.
-- ?1 now, ?2 due time and ?3 number: what comes after. The reader stops when its claim is full; a
-- bound here would let the rows of one lane hide those of another.
-- Index: {outbox}_later_due. Locks nothing.
SELECT number, seq, topic, biz_key, unexplained,
    coalesce(octet_length(payload), octet_length(payload_bytes)) AS size, due_at
FROM {outbox}_later
WHERE due_at <= ?1 AND (due_at, number) > (?2, ?3)
ORDER BY due_at, number
