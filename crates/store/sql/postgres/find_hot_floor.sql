-- Reads which part of the hot table one page searches: up to $1, over $2 numbers; and what is
-- below it.
-- Index: the primary key of the hot table. Locks nothing.
WITH part AS MATERIALIZED (
    SELECT least($1::bigint, coalesce(max(edge.last), 0)) AS top
    FROM (
        SELECT (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard DESC, hot.seq DESC LIMIT 1) AS last
        FROM {outbox}_lease AS lease WHERE lease.shard IS NOT NULL
    ) AS edge
),
below AS MATERIALIZED (
    SELECT near.seq, near.created_at
    FROM part CROSS JOIN {outbox}_lease AS lease CROSS JOIN LATERAL (
        SELECT hot.seq, hot.created_at FROM {outbox} AS hot
        WHERE hot.shard = lease.shard AND hot.seq <= part.top - $2::bigint
        ORDER BY hot.shard DESC, hot.seq DESC LIMIT 1
    ) AS near
    ORDER BY near.seq DESC LIMIT 1
)
SELECT part.top, below.seq, below.created_at FROM part LEFT JOIN below ON true
