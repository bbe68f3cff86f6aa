-- Sets refused later rows back for another attempt.
-- $1 numbers, $2 when they are due, $3 their trails, $4 now.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {outbox}_later AS later
SET due_at = ends.due_at, unexplained = 0, trail = ends.trail, moved_at = $4
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ends (number, due_at, trail)
WHERE later.number = ends.number
