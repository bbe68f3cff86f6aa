-- Copies published hot rows into the history.
-- $1 now; the rows: their numbers and shards, broker ids.
-- Index: the primary key of the hot table. Locks: its own new rows.
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, broker_message_id, sent_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at,
    1, named.broker_id, $1
FROM {rows: seq SIGNED, shard SIGNED, broker_id CHAR} AS named
STRAIGHT_JOIN {outbox} AS hot FORCE INDEX (PRIMARY)
    ON hot.seq = named.seq AND hot.shard = named.shard
