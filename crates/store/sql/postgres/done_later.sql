-- Moves published later rows into the history.
-- $1 numbers, $2 broker ids, $3 now.
-- Index: the primary key of the later table. Locks: the rows that move.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.broker_id
    FROM unnest($1::bigint[], $2::text[]) AS ends (number, broker_id)
    CROSS JOIN LATERAL (
        SELECT later.ctid FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
),
gone AS (
    DELETE FROM {outbox}_later AS later USING found WHERE later.ctid = found.at
    RETURNING later.seq, later.event_id, later.topic, later.event_type, later.biz_key,
        later.payload, later.payload_bytes, later.headers, later.created_at,
        later.attempts, later.trail, found.broker_id
)
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, broker_message_id, sent_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at, gone.attempts, gone.trail, gone.broker_id, $3
FROM gone
