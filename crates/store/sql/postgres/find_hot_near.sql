-- Finds a number up to which all hot rows are older than $1, by halving: numbers grow with time.
-- Index: the primary key of the hot table. Locks nothing.
WITH RECURSIVE edge AS MATERIALIZED (
    SELECT (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard, hot.seq LIMIT 1) AS first,
        (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = lease.shard
            ORDER BY hot.shard DESC, hot.seq DESC LIMIT 1) AS last
    FROM {outbox}_lease AS lease WHERE lease.shard IS NOT NULL
),
half (low, high) AS (
    SELECT min(edge.first), max(edge.last) FROM edge
    UNION ALL
    SELECT CASE WHEN middle.created_at < $1 THEN middle.seq + 1 ELSE half.low END,
        CASE WHEN middle.created_at < $1 THEN half.high ELSE (half.low + half.high) / 2 END
    FROM half CROSS JOIN LATERAL (
        SELECT near.seq, near.created_at
        FROM {outbox}_lease AS lease CROSS JOIN LATERAL (
            SELECT hot.seq, hot.created_at FROM {outbox} AS hot
            WHERE hot.shard = lease.shard AND hot.seq >= (half.low + half.high) / 2
            ORDER BY hot.shard, hot.seq LIMIT 1
        ) AS near
        ORDER BY near.seq LIMIT 1
    ) AS middle
    WHERE half.low < half.high
)
SELECT max(low) - 1 FROM half HAVING max(low) IS NOT NULL
