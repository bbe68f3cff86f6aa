-- Reads the oldest memory of what was taken in, failed, or left behind by a holder that fell
-- silent.
-- $1 what was last changed before this goes, $2 how many at the most, $3 now.
-- Index: {outbox}_inbox_updated. Locks nothing.
SELECT group_name, event_id FROM {outbox}_inbox FORCE INDEX ({outbox}_inbox_updated)
WHERE updated_at < $1 AND lease_until <= $3
ORDER BY updated_at LIMIT $2
