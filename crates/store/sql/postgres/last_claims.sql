-- Reads until when claims of later rows last, the longest that can be so first.
-- $1 until when a claim can last.
-- Index: {outbox}_later_out. Locks nothing.
SELECT later.due_at FROM {outbox}_later AS later
WHERE later.unexplained > 0 AND later.due_at <= $1
ORDER BY later.due_at DESC LIMIT 1
