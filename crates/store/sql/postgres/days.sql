-- Looks at days of history: how many rows each has, and how new the newest is, by the $2 rows that
-- were created last.
-- $1 their slots, $2 how many rows of a day at the most.
-- Index: {outbox}_sent_created. Locks nothing.
SELECT want.slot, count(*) AS seen, max(day.sent_at) AS newest
FROM unnest($1::bigint[]) AS want (slot)
CROSS JOIN LATERAL (
    SELECT sent_at FROM {outbox}_sent WHERE ((sent_at / 86400000) & 15) = want.slot
    ORDER BY created_at DESC LIMIT $2
) AS day
GROUP BY want.slot
