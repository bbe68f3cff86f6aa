-- Forgets relays that were not seen for a long time.
-- $1 since when.
-- Index: none; the table is small. Locks: the rows that go.
DELETE FROM {outbox}_relay WHERE seen_until < $1
