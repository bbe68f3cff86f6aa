-- Reads which new later rows of each shard are due before a place, in the order in which they
-- became so.
-- $1 shards, $2 their newest numbers that are not new, $3 due times and $4 numbers: what comes up
-- to there; $5 shards, $6 transactions, $7 whether any that is as new counts as well, $8
-- from where their end shows more.
-- Index: the primary key of the later table. Locks nothing.
WITH late AS MATERIALIZED (
    SELECT open.shard, min(open.newest) AS newest
    FROM unnest($5::smallint[], $6::text[], $7::boolean[], $8::bigint[])
        AS open (shard, xid, wide, newest)
    WHERE CASE WHEN open.wide THEN open.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_visible_in_snapshot(open.xid::xid8, pg_current_snapshot()) END
    GROUP BY open.shard
),
want AS MATERIALIZED (
    SELECT named.shard, least(named.newest, late.newest) AS newest, named.due_at, named.number
    FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS named (shard, newest, due_at, number)
    LEFT JOIN late ON late.shard = named.shard
),
fresh AS MATERIALIZED (
    SELECT later.number, later.seq, later.topic, later.biz_key, later.unexplained,
        coalesce(octet_length(later.payload), octet_length(later.payload_bytes)) AS size,
        later.due_at, later.shard
    FROM {outbox}_later AS later
    WHERE later.number > (SELECT min(want.newest) FROM want)
        AND later.due_at + 0 <= (SELECT max(want.due_at) FROM want)
    ORDER BY later.number
)
SELECT fresh.number, fresh.seq, fresh.topic, fresh.biz_key, fresh.unexplained, fresh.size,
    fresh.due_at, fresh.shard
FROM fresh JOIN want ON want.shard = fresh.shard
WHERE fresh.number > want.newest AND (fresh.due_at, fresh.number) <= (want.due_at, want.number)
ORDER BY fresh.due_at, fresh.number
