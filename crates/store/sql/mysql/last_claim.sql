-- Reads until when the longest claim of a later row lasts that can be so.
-- $1 until when a claim can last.
-- Index: {outbox}_later_out. Locks nothing.
SELECT MAX(later.due_at) FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_out)
WHERE later.unexplained > 0 AND later.due_at <= $1
