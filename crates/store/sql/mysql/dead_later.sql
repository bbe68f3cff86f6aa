-- Copies later rows to those that were given up.
-- $1 now; the rows: their numbers, attempts, trails, places in line.
-- Index: the primary key of the later table. Locks: its own new rows.
INSERT INTO {outbox}_dead (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers, created_at, attempts, trail, dead_at)
SELECT later.seq, later.event_id, later.topic, later.event_type, later.biz_key, later.payload,
    later.payload_bytes, later.headers, later.created_at,
    named.attempts, named.trail, $1
FROM {rows: number SIGNED, attempts SIGNED, trail CHAR, place SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
ORDER BY named.place
