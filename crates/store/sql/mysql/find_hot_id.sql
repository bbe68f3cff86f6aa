-- Lists the hot rows of one identity among the $9 rows above the number $8.
-- $1 created at, $2 identity: what comes after. $3 whether with payloads, $4 how many at the most.
-- $5 key, $6 type, $7 topic: NULL is all. $10 status, $11 the rows in flight, $12 identity.
-- Index: the primary key of the hot table. Locks nothing.
SELECT hot.event_id, topic, event_type, biz_key, CASE WHEN $3 THEN payload END AS payload,
    CASE WHEN $3 THEN payload_bytes END AS payload_bytes, headers, created_at, hot.seq, hot.shard
FROM (
    SELECT one.seq, one.shard, one.event_id FROM {outbox} AS one FORCE INDEX (PRIMARY)
    WHERE one.seq > $8 ORDER BY one.seq LIMIT $9
) AS near
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = near.seq AND hot.shard = near.shard
WHERE near.event_id = $12
    AND (created_at < $1 OR created_at = $1 AND hot.event_id < $2)
    AND ($5 IS NULL OR biz_key = $5 AND LENGTH(biz_key) = LENGTH($5))
    AND ($6 IS NULL OR event_type = $6 AND LENGTH(event_type) = LENGTH($6))
    AND ($7 IS NULL OR topic = $7 AND LENGTH(topic) = LENGTH($7))
    AND ($10 IS NULL OR $10 = CASE WHEN hot.seq IN ($11) THEN 'DISPATCHING' ELSE 'NEW' END)
ORDER BY created_at DESC, hot.event_id DESC
LIMIT $4
