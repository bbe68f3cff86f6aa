-- Reads which later rows are due, in the order in which they became so.
-- $1 now, $2 how many at the most, $3 shards.
-- Index: {outbox}_later_due. Locks nothing.
SELECT due.number, due.seq, due.topic, due.biz_key, due.unexplained, due.size, due.shard
FROM unnest($3::smallint[]) AS want (shard) CROSS JOIN LATERAL (
    SELECT later.number, later.seq, later.topic, later.biz_key, later.unexplained, later.shard,
        later.due_at,
        coalesce(octet_length(later.payload), octet_length(later.payload_bytes)) AS size
    FROM {outbox}_later AS later
    WHERE later.shard = want.shard AND later.due_at <= $1
    ORDER BY later.shard, later.due_at, later.number
    LIMIT $2
) AS due
ORDER BY due.due_at, due.number
LIMIT $2
