-- Settles published hot rows at one stroke, into the history. A shard that does not come back was
-- taken since, and nothing of it was changed.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours,
-- $5 how many were published; $6 shards, $7 numbers, $8 broker ids.
-- Index: the primary keys of the lease and of the hot table. Locks: the leases named, in one order
-- for everybody, and the rows that move.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.since, named.done
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[]) AS named (shard, since, done)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $2 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
),
counted AS (
    UPDATE {outbox}_lease AS lease SET sent = lease.sent + want.done
    FROM want
    WHERE lease.name = want.name AND lease.owner = $2 AND lease.since = want.since
    RETURNING want.shard
),
found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.broker_id
    FROM unnest($6::smallint[], $7::bigint[], $8::text[]) AS ends (shard, seq, broker_id)
    JOIN counted ON counted.shard = ends.shard
    CROSS JOIN LATERAL (
        SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = ends.shard AND hot.seq = ends.seq
        LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox} AS hot USING found WHERE hot.ctid = found.at
    RETURNING hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, found.broker_id
),
kept AS (
    INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
        headers, created_at, attempts, broker_message_id, sent_at)
    SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
        gone.payload_bytes, gone.headers, gone.created_at, 1, gone.broker_id,
        coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM gone
)
SELECT shard,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
FROM counted
