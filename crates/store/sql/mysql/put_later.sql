-- Puts events down to be claimed at a moment, numbered in their order.
-- $1 the clock or NULL for the database's, $2 when they are due; #1 to #7 of each event.
-- Index: none is read. Locks: its own new rows.
INSERT INTO {outbox}_later (created_at, moved_at, due_at, event_id, topic, event_type, biz_key,
    payload, payload_bytes, headers)
VALUES {tuples: COALESCE($1, {clock}), COALESCE($1, {clock}), $2, #1, #2, #3, #4, #5, #6, #7}
