-- Takes hot rows out of the hot table that nobody settled in time.
-- ?1 the rows, as the lease row names them.
-- Index: the primary key of the hot table. Locks: the one writer.
DELETE FROM {outbox} WHERE seq IN (
    SELECT named.value FROM json_each(?1) AS batch, json_each(batch.value, '$[1]') AS named
)
