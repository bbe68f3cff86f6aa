-- Reads which part of the hot table one page searches: up to ?1, over ?2 numbers; and what is
-- below it.
-- Index: the primary key of the hot table. Locks nothing.
WITH part (top) AS (SELECT min(?1, coalesce((SELECT max(seq) FROM {outbox}), 0)))
SELECT part.top, below.seq, below.created_at
FROM part LEFT JOIN {outbox} AS below
    ON below.seq = (SELECT max(seq) FROM {outbox} WHERE seq <= part.top - ?2)
