-- Finds a number up to which all hot rows are older than ?1, by halving: numbers grow with time.
-- Index: the primary key of the hot table. Locks nothing.
WITH RECURSIVE half (low, high) AS (
    SELECT (SELECT min(seq) FROM {outbox}), (SELECT max(seq) FROM {outbox})
    UNION ALL
    SELECT iif(middle.created_at < ?1, middle.seq + 1, low),
        iif(middle.created_at < ?1, high, (low + high) / 2)
    FROM half JOIN {outbox} AS middle
        ON middle.seq = (SELECT min(seq) FROM {outbox} WHERE seq >= (half.low + half.high) / 2)
    WHERE low < high
)
SELECT max(low) - 1 FROM half HAVING max(low) IS NOT NULL
