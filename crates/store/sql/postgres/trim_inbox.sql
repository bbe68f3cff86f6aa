-- Trims the oldest memory of what was taken in. A row that someone works on is passed over.
-- $1 what was processed before this goes, $2 how many at the most.
-- Index: {outbox}_inbox_processed, then the primary key of the inbox. Locks: the rows that go.
WITH oldest AS MATERIALIZED (
    SELECT group_name, event_id FROM {outbox}_inbox
    WHERE status = 'PROCESSED' AND updated_at < $1
    ORDER BY updated_at LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {outbox}_inbox AS inbox USING oldest
WHERE inbox.group_name = oldest.group_name AND inbox.event_id = oldest.event_id
