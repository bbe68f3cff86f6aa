-- Reads the keys that wait for another attempt of one of their events.
-- Index: {outbox}_later_holders, covering. Locks nothing.
SELECT number, seq, biz_key, topic FROM {outbox}_later
WHERE attempts > 0 AND biz_key IS NOT NULL
