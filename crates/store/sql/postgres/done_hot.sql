-- Moves published hot rows into the history.
-- $1 shards, $2 numbers, $3 broker ids, $4 now.
-- Index: the primary key of the hot table. Locks: the rows that move.
WITH gone AS (
    DELETE FROM {outbox} AS hot
    USING unnest($1::smallint[], $2::bigint[], $3::text[]) AS ends (shard, seq, broker_id)
    WHERE hot.shard = ends.shard AND hot.seq = ends.seq
    RETURNING hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, ends.broker_id
)
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at,
    attempts, broker_message_id, sent_at)
SELECT gone.seq, gone.event_id, gone.topic, gone.event_type, gone.biz_key, gone.payload,
    gone.payload_bytes, gone.headers, gone.created_at,
    1, gone.broker_id, $4
FROM gone
