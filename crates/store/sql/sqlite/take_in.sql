-- Takes an event in as processed. No row back means that it was taken in before, or that another
-- holder works on it. A lease of more than a day was taken by a clock that was ahead.
-- ?1 the clock or NULL for the database's, ?2 the group, ?3 the identity.
-- Index: the primary key of the inbox. Locks: the one writer.
INSERT INTO {outbox}_inbox (group_name, event_id, status, attempts, fence, lease_until, created_at,
    updated_at)
SELECT ?2, ?3, 'PROCESSED', 1, 1, 0, clock.now, clock.now
FROM (SELECT coalesce(?1, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)) AS now)
    AS clock
WHERE true
ON CONFLICT (group_name, event_id) DO UPDATE
SET status = 'PROCESSED', attempts = attempts + 1, fence = fence + 1, lease_until = 0,
    last_error = NULL, updated_at = excluded.updated_at
WHERE status <> 'PROCESSED'
    AND NOT lease_until BETWEEN excluded.updated_at + 1 AND excluded.updated_at + 86400000
RETURNING fence
