-- Reads the keys that wait for another attempt of one of their events.
-- $1 shards.
-- Index: {outbox}_later_holders, covering. Locks nothing.
SELECT held.number, held.seq, held.biz_key, held.topic, held.shard
FROM unnest($1::smallint[]) AS want (shard) CROSS JOIN LATERAL (
    SELECT later.number, later.seq, later.biz_key, later.topic, later.shard
    FROM {outbox}_later AS later
    WHERE later.shard = want.shard AND later.attempts > 0 AND later.biz_key IS NOT NULL
    ORDER BY later.shard, later.biz_key, later.topic, later.seq, later.number
    OFFSET 0
) AS held
