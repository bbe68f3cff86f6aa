-- What a relay sees at one look: the clock, the lease, and whether anything waits.
-- ?1 the clock or NULL for the database's, ?2 the lease, ?3 the cursor, ?4 due times already seen.
-- Index: the primary keys of the lease and of the hot table, {outbox}_later_due. Locks nothing.
WITH clock (now) AS (
    SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
)
SELECT clock.now, lease.owner, lease.fence, lease.lease_until,
    EXISTS (SELECT 1 FROM {outbox}) AS hot,
    EXISTS (SELECT 1 FROM {outbox} WHERE seq > ?3) AS ahead,
    (SELECT min(due_at) FROM {outbox}_later WHERE due_at > ?4) AS due,
    (SELECT max(number) FROM {outbox}_later) AS newest
FROM clock, {outbox}_lease AS lease
WHERE lease.name = ?2
