-- Reads later rows that were claimed.
-- The rows: their numbers.
-- Index: the primary key of the later table. Locks nothing.
SELECT later.number, later.event_id, later.topic, later.event_type, later.biz_key, later.payload,
    later.payload_bytes, later.headers, later.created_at,
    later.attempts, later.trail, later.unexplained - 1, later.fence
FROM {rows: number SIGNED} AS named
STRAIGHT_JOIN {outbox}_later AS later FORCE INDEX (PRIMARY) ON later.number = named.number
