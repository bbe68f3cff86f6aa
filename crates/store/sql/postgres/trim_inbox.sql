-- Trims the oldest memory of what was taken in, failed, or left behind by a holder that fell
-- silent. A row that someone is at is passed over.
-- $1 what was last changed before this goes, $2 how many at the most, $3 now.
-- Index: {outbox}_inbox_updated, then the primary key of the inbox. Locks: the rows that go.
WITH oldest AS MATERIALIZED (
    SELECT group_name, event_id FROM {outbox}_inbox
    WHERE updated_at < $1 AND lease_until <= $3
    ORDER BY updated_at LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {outbox}_inbox AS inbox USING oldest
WHERE inbox.group_name = oldest.group_name AND inbox.event_id = oldest.event_id
