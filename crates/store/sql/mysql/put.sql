-- Puts events down to be claimed at once, numbered in their order.
-- $1 the clock or NULL for the database's; #1 to #7 of each event.
-- Index: none is read. Locks: its own new rows.
INSERT INTO {outbox} (created_at, event_id, topic, event_type, biz_key, payload, payload_bytes,
    headers)
VALUES {tuples: COALESCE($1, {clock}), #1, #2, #3, #4, #5, #6, #7}
