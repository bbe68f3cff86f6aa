-- Makes rows due whose claims seem to last longer than any can: a clock was ahead. Their holders
-- may settle them until another claims them.
-- $1 now, $2 how long a claim can last.
-- Index: {outbox}_later_out. Locks: the rows named.
UPDATE {outbox}_later SET due_at = $1 WHERE unexplained > 0 AND due_at > $1::bigint + $2::bigint
