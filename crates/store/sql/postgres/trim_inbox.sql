-- Trims the oldest memory of what was taken in, failed, or left behind by a holder that fell
-- silent. A row that someone is at is passed over.
-- $1 what was last changed before this goes, $2 how many at the most, $3 now.
-- Index: {outbox}_inbox_updated. Locks: the rows that go.
WITH oldest AS MATERIALIZED (
    SELECT ctid AS at FROM {outbox}_inbox
    WHERE updated_at < $1 AND lease_until <= $3
    ORDER BY updated_at LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {outbox}_inbox AS inbox USING oldest WHERE inbox.ctid = oldest.at
