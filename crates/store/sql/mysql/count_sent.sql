-- Counts what competing relays have published, in one of the tallies.
-- $1 the shard, $2 how many.
-- Index: the primary key of the tally. Locks: the one row.
UPDATE {outbox}_tally AS tally SET tally.sent = tally.sent + $2 WHERE tally.shard = $1
