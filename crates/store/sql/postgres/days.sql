-- Looks at days of history: how many rows each has, and how new the newest is, by the $2 rows whose
-- identities are last, and by the $2 strays that were created last.
-- $1 their slots, $2 how many rows of a day at the most.
-- Index: {outbox}_sent_id, {outbox}_sent_stray. Locks nothing.
SELECT want.slot, day.seen, greatest(day.newest, strays.newest) AS newest
FROM unnest($1::bigint[]) AS want (slot)
CROSS JOIN LATERAL (
    SELECT count(*) AS seen, max(rows.sent_at) AS newest
    FROM (
        SELECT sent_at FROM {outbox}_sent WHERE ((sent_at / 86400000) & 15) = want.slot
        ORDER BY event_id USING ~>~ LIMIT $2
    ) AS rows
) AS day
CROSS JOIN LATERAL (
    SELECT max(rows.sent_at) AS newest
    FROM (
        SELECT sent_at FROM {outbox}_sent
        WHERE stray AND ((sent_at / 86400000) & 15) = want.slot
        ORDER BY created_at DESC LIMIT $2
    ) AS rows
) AS strays
WHERE day.seen > 0
