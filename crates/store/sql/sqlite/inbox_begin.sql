-- Asks to work on an event: the first to insert works, and so does whoever finds it neither
-- processed nor held. No row back means that it is one of the two. A lease of days was taken by a
-- clock that was ahead, and does not count.
-- ?1 the clock or NULL for the database's, ?2 the group, ?3 the identity, ?4 how long.
-- Index: the primary key of the inbox. Locks: the one writer.
INSERT INTO {outbox}_inbox (group_name, event_id, status, attempts, fence, lease_until, created_at,
    updated_at)
SELECT ?2, ?3, 'PROCESSING', 1, 1, clock.now + ?4, clock.now, clock.now
FROM (SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)) AS now)
    AS clock
WHERE true
ON CONFLICT (group_name, event_id) DO UPDATE
SET status = 'PROCESSING', attempts = attempts + 1, fence = fence + 1,
    lease_until = excluded.lease_until, updated_at = excluded.updated_at
WHERE status <> 'PROCESSED'
    AND NOT lease_until BETWEEN excluded.updated_at + 1
        AND excluded.updated_at + max(86400000, 10 * ?4)
RETURNING fence
