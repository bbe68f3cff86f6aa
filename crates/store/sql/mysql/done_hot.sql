-- Copies published hot rows of one shard into the history.
-- $1 now, $2 the shard, $3 their numbers, $4 their broker ids.
-- Index: the primary key of the hot table. Locks: its own new rows.
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, broker_message_id, sent_at)
SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers, hot.created_at,
    1, ELT(FIELD(hot.seq, $3), $4), $1
FROM {outbox} AS hot FORCE INDEX (PRIMARY)
WHERE hot.shard = $2 AND hot.seq IN ($3)
