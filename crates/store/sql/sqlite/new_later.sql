-- Reads which new later rows are due before a place, in the order in which they became so.
-- ?1 the newest number that is not new, ?2 due time and ?3 number: what comes up to there.
-- Index: the primary key of the later table. Locks nothing.
SELECT number, seq, topic, biz_key, unexplained,
    coalesce(octet_length(payload), octet_length(payload_bytes)) AS size, due_at
FROM {outbox}_later
WHERE number > ?1 AND (+due_at, number) <= (?2, ?3)
ORDER BY +due_at, number
