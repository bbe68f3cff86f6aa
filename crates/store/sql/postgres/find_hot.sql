-- Lists hot rows, newest first. Without an identity only the newest $9 are looked at.
-- $1 created at, $2 identity: what comes after. $3 identity, $4 key, $5 type, $6 topic: NULL is
-- all. $7 whether with payloads, $8 how many at the most, $10 true for rows in flight, false for
-- others, $11 now. $12 is not asked.
-- Index: the primary key of the hot table. Locks nothing.
WITH flight AS MATERIALIZED (
    SELECT lease.shard, named.seq, named.until, lease.lease_until > $11 AS live
    FROM {outbox}_lease AS lease
    CROSS JOIN LATERAL unnest(lease.out_seq, lease.out_until) AS named (seq, until)
)
SELECT hot.event_id, hot.topic, hot.event_type, hot.biz_key,
    CASE WHEN $7 THEN hot.payload END AS payload,
    CASE WHEN $7 THEN hot.payload_bytes END AS payload_bytes, hot.headers,
    hot.created_at, coalesce(flight.live, false) AS out, (flight.seq IS NOT NULL)::int AS attempts,
    coalesce(flight.until, hot.created_at) AS due_at, NULL::text AS trail,
    NULL::text AS broker_message_id, hot.created_at AS moved_at
FROM (
    SELECT near.shard, near.seq, near.event_id, near.topic, near.event_type, near.biz_key,
        near.payload, near.payload_bytes, near.headers, near.created_at
    FROM {outbox}_lease AS lease CROSS JOIN LATERAL (
        SELECT one.shard, one.seq, one.event_id, one.topic, one.event_type, one.biz_key,
            one.payload, one.payload_bytes, one.headers, one.created_at
        FROM {outbox} AS one WHERE one.shard = lease.shard
        ORDER BY one.shard DESC, one.seq DESC
        LIMIT CASE WHEN $3::text IS NULL THEN $9::bigint END
    ) AS near
    WHERE lease.shard IS NOT NULL
) AS hot
LEFT JOIN flight ON flight.shard = hot.shard AND flight.seq = hot.seq
WHERE (hot.created_at, hot.event_id) < ($1, $2)
    AND ($3::text IS NULL OR hot.event_id = $3) AND ($4::text IS NULL OR hot.biz_key = $4)
    AND ($5::text IS NULL OR hot.event_type = $5) AND ($6::text IS NULL OR hot.topic = $6)
    AND ($10::boolean IS NULL OR coalesce(flight.live, false) = $10)
    AND ($12::text IS NULL OR false)
ORDER BY hot.created_at DESC, hot.event_id DESC
LIMIT $8
