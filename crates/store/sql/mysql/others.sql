-- Reads until when other relays say that they are there.
-- $1 this relay.
-- Index: none; the table is small. Locks nothing.
SELECT relay.seen_until FROM {outbox}_relay AS relay WHERE relay.name <> $1
