-- Reads the newest later row's number, and whether a claim seems to last longer than any can,
-- because a clock was ahead. Most claims are the first of their rows, which the index finds at
-- once.
-- $1 until when a claim can last.
-- Index: {outbox}_later_out. Locks nothing.
SELECT (SELECT MAX(later.number) FROM {outbox}_later AS later) AS newest,
    EXISTS (SELECT 1 FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_out)
        WHERE later.unexplained = 1 AND later.due_at > $1)
    OR EXISTS (SELECT 1 FROM {outbox}_later AS later FORCE INDEX ({outbox}_later_out)
        WHERE later.unexplained > 1 AND later.due_at > $1) AS astray
