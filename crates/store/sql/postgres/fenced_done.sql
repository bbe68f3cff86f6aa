-- Settles published rows under the fences of their claims, into the history. A row that does not
-- come back was claimed again since, and is unchanged.
-- $1 numbers, $2 fences, $3 events, $4 broker ids, $5 the clock or NULL for the database's, $6 the
-- shard whose lease row counts them.
-- Index: the primary keys of the later table and of the lease. Locks: the rows that move, then the
-- lease.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.fence, ends.broker_id
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])
        AS ends (number, fence, event_id, broker_id)
    CROSS JOIN LATERAL (
        SELECT later.ctid, later.fence, later.event_id, later.unexplained
        FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
    WHERE near.fence = ends.fence AND near.event_id = ends.event_id AND near.unexplained > 0
),
gone AS (
    DELETE FROM {outbox}_later AS later USING found
    WHERE later.ctid = found.at AND later.fence = found.fence
    RETURNING later.number, later.seq, later.event_id, later.topic, later.event_type, later.biz_key,
        later.payload, later.payload_bytes, later.headers, later.created_at,
        later.attempts, later.trail, found.broker_id
),
kept AS (
    INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
        headers, created_at, attempts, trail, broker_message_id, sent_at)
    SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
        gone.payload_bytes, gone.headers, gone.created_at, gone.attempts, gone.trail,
        gone.broker_id,
        coalesce($5::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM gone
),
counted AS (
    UPDATE {outbox}_lease AS lease SET sent = lease.sent + (SELECT count(*) FROM gone)
    WHERE lease.name = 'shard:' || $6::smallint AND EXISTS (SELECT 1 FROM gone)
)
SELECT gone.number FROM gone
