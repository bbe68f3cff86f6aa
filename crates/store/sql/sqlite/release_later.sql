-- Sets later rows back as if they had not been claimed.
-- ?1 [[number, due], …].
-- Index: the primary key of the later table. Locks: the one writer.
UPDATE {outbox}_later
SET due_at = ends.value ->> 1, attempts = attempts - 1, unexplained = 0
FROM json_each(?1) AS ends
WHERE number = ends.value ->> 0
