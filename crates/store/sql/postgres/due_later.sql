-- Reads which later rows of each shard are due beyond a place, in the order in which they became
-- so.
-- $1 now, $2 shards, $3 due times and $4 numbers: what comes after; $5 how many of each shard.
-- Index: {outbox}_later_due. Locks nothing.
SELECT due.number, due.seq, due.topic, due.biz_key, due.unexplained, due.size, due.due_at,
    want.shard
FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS want (shard, due_at, number)
CROSS JOIN LATERAL (
    SELECT later.number, later.seq, later.topic, later.biz_key, later.unexplained, later.due_at,
        coalesce(octet_length(later.payload), octet_length(later.payload_bytes)) AS size
    FROM {outbox}_later AS later
    WHERE later.shard = want.shard AND later.due_at <= $1
        AND (later.due_at, later.number + 0) > (want.due_at, want.number)
    ORDER BY later.shard, later.due_at, later.number + 0
    LIMIT $5
) AS due
