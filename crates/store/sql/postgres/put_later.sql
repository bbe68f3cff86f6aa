-- Puts events down to be claimed at a moment, numbered in their order.
-- $1 the clock or NULL for the database's, $2 to $8 the events, one array a column, $9 when they
-- are due.
-- Index: none is read. Locks: its own new rows.
INSERT INTO {outbox}_later (created_at, moved_at, due_at, event_id, topic, event_type, biz_key,
    payload, payload_bytes, headers)
SELECT clock.now, clock.now, $9,
    put.event_id, put.topic, put.event_type, put.biz_key, put.payload, put.payload_bytes,
        put.headers
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[])
    WITH ORDINALITY AS put (event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
        place),
    (
        SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
    ) AS clock
ORDER BY put.place
