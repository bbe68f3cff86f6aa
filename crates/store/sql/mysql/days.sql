-- Looks at days of history: how many rows each has, and how new the newest is, by the $1 rows that
-- were created last.
-- $1 how many rows of a day at the most; for each day: #1 its slot.
-- Index: {outbox}_sent_created. Locks nothing.
{each}
SELECT #1 AS slot, COUNT(*) AS seen, MAX(day.sent_at) AS newest
FROM (
    SELECT sent.sent_at FROM {outbox}_sent AS sent FORCE INDEX ({outbox}_sent_created)
    WHERE sent.slot = #1 ORDER BY sent.created_at DESC LIMIT $1
) AS day
