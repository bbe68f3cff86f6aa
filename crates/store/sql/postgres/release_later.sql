-- Sets later rows back as if they had not been claimed.
-- $1 numbers, $2 when they are due.
-- Index: the primary key of the later table. Locks: the rows named.
UPDATE {outbox}_later AS later
SET due_at = ends.due_at, attempts = later.attempts - 1, unexplained = 0
FROM unnest($1::bigint[], $2::bigint[]) AS ends (number, due_at)
WHERE later.number = ends.number AND later.unexplained > 0
