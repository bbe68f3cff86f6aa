-- Says that a relay is there.
-- $1 its name, $2 until when.
-- Index: the primary key of the relays. Locks: the one row.
INSERT INTO {outbox}_relay (name, seen_until) VALUES ($1, $2)
ON DUPLICATE KEY UPDATE seen_until = $2
