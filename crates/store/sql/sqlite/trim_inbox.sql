-- Trims the oldest memory of what was taken in.
-- ?1 what was processed before this goes, ?2 how many at the most.
-- Index: {outbox}_inbox_processed, then the primary key of the inbox. Locks: the one writer.
DELETE FROM {outbox}_inbox WHERE (group_name, event_id) IN (
    SELECT group_name, event_id FROM {outbox}_inbox
    WHERE status = 'PROCESSED' AND updated_at < ?1
    ORDER BY updated_at LIMIT ?2
)
