-- Sets later rows back as if they had not been claimed.
-- ?1 [[number, due], …], ?2 now.
-- Index: the primary key of the later table. Locks: the one writer.
UPDATE {outbox}_later
SET due_at = ends.value ->> 1, attempts = attempts - 1, unexplained = 0, moved_at = ?2
FROM json_each(?1) AS ends
WHERE number = ends.value ->> 0
