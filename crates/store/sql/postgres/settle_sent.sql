-- Settles published hot rows at one stroke, into the history. A shard that does not come back was
-- taken since, and nothing of it was changed.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours,
-- $5 from where and $6 up to where their rows stand among $7, the numbers, which rise in each; $8
-- broker ids in the same order, or NULL if there is none.
-- Index: the primary keys of the lease and of the hot table. Locks: the leases named, in one order
-- for everybody, and the rows that move.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.since, named.first, named.last
    FROM unnest($3::smallint[], $4::bigint[], $5::integer[], $6::integer[])
        AS named (shard, since, first, last)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $2 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
),
counted AS (
    UPDATE {outbox}_lease AS lease SET sent = lease.sent + want.last - want.first + 1
    FROM want
    WHERE lease.name = want.name AND lease.owner = $2 AND lease.since = want.since
    RETURNING want.shard, want.first, want.last
),
gone AS (
    DELETE FROM {outbox} AS hot WHERE hot.ctid = ANY (ARRAY(
        SELECT near.ctid FROM counted CROSS JOIN LATERAL (
            SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = counted.shard
                AND hot.seq = ANY (($7::bigint[])[counted.first:counted.last])
            OFFSET 0
        ) AS near
    ))
    RETURNING hot.shard, hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at
),
kept AS (
    INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
        headers, created_at, attempts, broker_message_id, sent_at)
    SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
        gone.payload_bytes, gone.headers, gone.created_at, 1,
        ($8::text[])[counted.first - 1 + width_bucket(gone.seq,
            ($7::bigint[])[counted.first:counted.last])],
        coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM gone JOIN counted ON counted.shard = gone.shard
)
SELECT shard,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
FROM counted
