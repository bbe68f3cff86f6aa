-- Sets refused later rows back for another attempt.
-- ?1 [[number, due, trail], …], ?2 now.
-- Index: the primary key of the later table. Locks: the one writer.
UPDATE {outbox}_later
SET due_at = ends.value ->> 1, unexplained = 0, trail = ends.value -> 2, moved_at = ?2
FROM json_each(?1) AS ends
WHERE number = ends.value ->> 0
