-- Reads the next hot rows, shard by shard in the order given. Nothing is written: they are ours by
-- the lease, or candidates of a claim. The first row is the snapshot of the look and no event. Its
-- number tells which transaction would be the next; nothing does once this one has begun itself.
-- $1 shards, $2 where each look begins, $3 how many at the most; $4 shards, $5 transactions, $6
-- whether any that is as new counts as well, $7 from where their end shows more.
-- Index: the primary key of the hot table. Locks nothing.
WITH late AS MATERIALIZED (
    SELECT open.shard, min(open.seq) AS seq
    FROM unnest($4::smallint[], $5::text[], $6::boolean[], $7::bigint[])
        AS open (shard, xid, wide, seq)
    WHERE CASE WHEN open.wide THEN open.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_visible_in_snapshot(open.xid::xid8, pg_current_snapshot()) END
    GROUP BY open.shard
),
want AS MATERIALIZED (
    SELECT named.shard, least(named.seq, late.seq) AS seq
    FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS named (shard, seq, place)
    LEFT JOIN late ON late.shard = named.shard
    ORDER BY named.place
)
SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN age('3'::xid)::bigint END AS seq,
    NULL AS event_id, NULL AS topic, NULL AS event_type, NULL AS biz_key,
    pg_current_snapshot()::text AS payload, NULL AS payload_bytes, NULL AS headers,
    NULL AS created_at, NULL::smallint AS shard
UNION ALL (
    SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at,
        hot.shard
    FROM want CROSS JOIN LATERAL (
        SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
            hot.payload_bytes, hot.headers, hot.created_at,
            hot.shard
        FROM {outbox} AS hot
        WHERE hot.shard = want.shard AND hot.seq > want.seq
        ORDER BY hot.shard, hot.seq
        LIMIT $3
    ) AS hot
    LIMIT $3
)
