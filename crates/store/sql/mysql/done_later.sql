-- Copies published later rows into the history.
-- $1 now; the rows: their numbers, broker ids.
-- Index: the primary key of the later table. Locks: its own new rows.
INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, broker_message_id, sent_at)
SELECT later.seq, later.event_id, later.topic, later.event_type, later.biz_key, later.payload,
    later.payload_bytes, later.headers, later.created_at,
    later.attempts, later.trail, named.broker_id, $1
FROM {rows: number SIGNED, broker_id CHAR} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
