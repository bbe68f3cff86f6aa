-- Lists history, newest first, as far back as $8: strays by their time, all others by identity.
-- $1 created at, $2 identity: what comes after. $3 whether with payloads, $4 how many at the most.
-- $5 key, $6 type, $7 topic: NULL is all. $9 code of the newest cause. $10 now.
-- No row but a stray is more than 1,000 ms from its identity's moment, or dated ahead by more than
-- an hour. Most identities of version 4 are beyond all moments of version 7, and must not be passed
-- over one by one, so the search begins 90 days ahead, for a clock that was wrong. Of as many as are
-- wanted, the last ones by identity, the oldest is the floor: whatever is newer than that has an
-- identity at most 1,000 ms before its moment. None older than the last stray is wanted.
-- Index: {outbox}_sent_id, {outbox}_sent_stray. Locks nothing.
WITH strays AS MATERIALIZED (
    SELECT event_id, topic, event_type, biz_key, CASE WHEN $3 THEN payload END AS payload,
        CASE WHEN $3 THEN payload_bytes END AS payload_bytes, headers, created_at, attempts, trail,
        broker_message_id, sent_at
    FROM {outbox}_sent
    WHERE stray AND created_at BETWEEN $8 AND $1 AND (created_at, event_id) < ($1, $2)
        AND ($5::text IS NULL OR biz_key = $5) AND ($6::text IS NULL OR event_type = $6)
        AND ($7::text IS NULL OR topic = $7)
        AND ($9::text IS NULL OR trail::json -> -1 -> 'cause' ->> 'code' = $9)
    ORDER BY created_at DESC, event_id DESC
    LIMIT $4
),
reach AS MATERIALIZED (
    SELECT greatest($8, CASE WHEN count(*) = $4 THEN min(created_at) END) AS bottom FROM strays
),
span AS MATERIALIZED (
    SELECT bottom, greatest(least(bottom, 281474976710655), 1000) - 1000 AS low,
        least(greatest($1, -1001), $10::bigint + 7776000000, 281474976709654) + 1001 AS high
    FROM reach
),
last AS MATERIALIZED (
    SELECT created_at
    FROM {outbox}_sent
    WHERE event_id ~>=~ (
            SELECT overlay(lpad(to_hex(low), 12, '0') PLACING '-' FROM 9 FOR 0) FROM span
        )
        AND event_id ~<~ (
            SELECT overlay(lpad(to_hex(high), 12, '0') PLACING '-' FROM 9 FOR 0) FROM span
        )
        AND NOT stray AND created_at BETWEEN (SELECT bottom FROM span) AND $1
        AND (created_at, event_id) < ($1, $2)
        AND ($5::text IS NULL OR biz_key = $5) AND ($6::text IS NULL OR event_type = $6)
        AND ($7::text IS NULL OR topic = $7)
        AND ($9::text IS NULL OR trail::json -> -1 -> 'cause' ->> 'code' = $9)
    ORDER BY event_id USING ~>~
    LIMIT $4
),
edge AS MATERIALIZED (
    SELECT CASE WHEN count(*) = $4 THEN min(created_at) - 1000 END AS low FROM last
),
others AS (
    SELECT event_id, topic, event_type, biz_key, CASE WHEN $3 THEN payload END AS payload,
        CASE WHEN $3 THEN payload_bytes END AS payload_bytes, headers, created_at, attempts, trail,
        broker_message_id, sent_at
    FROM {outbox}_sent
    WHERE event_id ~>=~ (
            SELECT overlay(lpad(to_hex(greatest(edge.low, span.low)), 12, '0')
                PLACING '-' FROM 9 FOR 0)
            FROM edge, span
        )
        AND event_id ~<~ (
            SELECT overlay(lpad(to_hex(high), 12, '0') PLACING '-' FROM 9 FOR 0) FROM span
        )
        AND NOT stray AND created_at BETWEEN (SELECT bottom FROM span) AND $1
        AND (created_at, event_id) < ($1, $2)
        AND ($5::text IS NULL OR biz_key = $5) AND ($6::text IS NULL OR event_type = $6)
        AND ($7::text IS NULL OR topic = $7)
        AND ($9::text IS NULL OR trail::json -> -1 -> 'cause' ->> 'code' = $9)
    ORDER BY created_at DESC, event_id DESC
    LIMIT $4
),
found AS (
    SELECT event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
        attempts, trail, broker_message_id, sent_at
    FROM strays
    UNION ALL
    SELECT event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
        attempts, trail, broker_message_id, sent_at
    FROM others
)
SELECT event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
    'SENT' AS status, attempts, NULL::bigint AS due_at, trail, broker_message_id,
    sent_at AS moved_at
FROM found
ORDER BY created_at DESC, event_id DESC
LIMIT $4
