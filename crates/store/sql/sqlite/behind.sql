-- Counts who waits behind keys that are held among the first ?2 hot rows.
-- ?1 the keys.
-- Index: the primary key of the hot table. Locks nothing.
SELECT biz_key, count(*) AS behind
FROM (SELECT biz_key FROM {outbox} ORDER BY seq LIMIT ?2)
WHERE biz_key IN (SELECT value FROM json_each(?1))
GROUP BY biz_key
