-- Takes the hot rows that a silent owner had in flight out of the hot table.
-- ?1 the lease.
-- Index: the primary keys of the lease and of the hot table. Locks: the one writer.
DELETE FROM {outbox} WHERE seq IN (
    SELECT named.value
    FROM {outbox}_lease AS lease, json_each(lease.out) AS batch,
        json_each(batch.value, '$[1]') AS named
    WHERE lease.name = ?1
)
