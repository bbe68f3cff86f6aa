-- Lists the hot rows above the number $8 and up to $9, newest first.
-- $1 created at, $2 identity: what comes after. $3 whether with payloads, $4 how many at the most.
-- $5 key, $6 type, $7 topic: NULL is all. $10 status, $11 now.
-- Index: the primary key of the hot table. Locks nothing.
WITH flight AS MATERIALIZED (
    SELECT lease.shard, named.seq, named.until,
        CASE WHEN lease.since > 0 THEN lease.lease_until ELSE named.until END > $11 AS live
    FROM {outbox}_lease AS lease
    CROSS JOIN LATERAL unnest(lease.out_seq, lease.out_until) AS named (seq, until)
),
page AS MATERIALIZED (
    SELECT near.shard, near.seq
    FROM {outbox}_lease AS lease CROSS JOIN LATERAL (
        SELECT one.shard, one.seq, one.event_id, one.topic, one.event_type, one.biz_key,
            one.created_at
        FROM {outbox} AS one WHERE one.shard = lease.shard AND one.seq > $8 AND one.seq <= $9
        OFFSET 0
    ) AS near
    WHERE (near.created_at, near.event_id) < ($1, $2)
        AND ($5::text IS NULL OR near.biz_key = $5) AND ($6::text IS NULL OR near.event_type = $6)
        AND ($7::text IS NULL OR near.topic = $7)
        AND ($10::text IS NULL OR $10 = CASE WHEN near.seq IN
            (SELECT flight.seq FROM flight WHERE flight.live) THEN 'DISPATCHING' ELSE 'NEW' END)
    ORDER BY near.created_at DESC, near.event_id DESC
    LIMIT $4
)
SELECT hot.event_id, hot.topic, hot.event_type, hot.biz_key,
    CASE WHEN $3 THEN hot.payload END AS payload,
    CASE WHEN $3 THEN hot.payload_bytes END AS payload_bytes, hot.headers, hot.created_at,
    CASE WHEN flight.live THEN 'DISPATCHING' ELSE 'NEW' END AS status,
    (flight.seq IS NOT NULL)::int AS attempts, coalesce(flight.until, hot.created_at) AS due_at,
    NULL::text AS trail, NULL::text AS broker_message_id, hot.created_at AS moved_at
FROM page CROSS JOIN LATERAL (
    SELECT one.shard, one.seq, one.event_id, one.topic, one.event_type, one.biz_key, one.payload,
        one.payload_bytes, one.headers, one.created_at
    FROM {outbox} AS one WHERE one.shard = page.shard AND one.seq = page.seq LIMIT 1
) AS hot
LEFT JOIN flight ON flight.shard = hot.shard AND flight.seq = hot.seq
