-- Lists the hot rows of one identity among the ?13 rows above the number ?9.
-- ?1 created at, ?2 identity: what comes after. ?3 identity, ?4 key, ?5 type, ?6 topic: NULL is
-- all but ?3. ?7 whether with payloads, ?8 how many at the most, ?10 status, ?11 now.
-- Index: the primary key of the hot table. Locks nothing.
WITH flight (seq, until, live) AS (
    SELECT named.value, batch.value ->> 0, lease.lease_until > ?11
    FROM {outbox}_lease AS lease, json_each(lease.out) AS batch,
        json_each(batch.value, '$[1]') AS named
),
page (seq) AS MATERIALIZED (
    SELECT seq FROM (
        SELECT seq, event_id, topic, event_type, biz_key, created_at FROM {outbox}
        WHERE seq > ?9 ORDER BY seq LIMIT ?13
    )
    WHERE event_id = ?3 AND (created_at, event_id) < (?1, ?2)
        AND (?4 IS NULL OR biz_key = ?4)
        AND (?5 IS NULL OR event_type = ?5) AND (?6 IS NULL OR topic = ?6)
        AND (?10 IS NULL
            OR iif(seq IN (SELECT seq FROM flight WHERE live), 'DISPATCHING', 'NEW') = ?10)
    ORDER BY created_at DESC, event_id DESC
    LIMIT ?8
)
SELECT hot.event_id, hot.topic, hot.event_type, hot.biz_key, iif(?7, hot.payload, NULL) AS payload,
    iif(?7, hot.payload_bytes, NULL) AS payload_bytes, hot.headers, hot.created_at,
    iif(flight.live, 'DISPATCHING', 'NEW') AS status, flight.seq IS NOT NULL AS attempts,
    coalesce(flight.until, hot.created_at) AS due_at, NULL AS trail, NULL AS broker_message_id,
    hot.created_at AS moved_at
FROM page CROSS JOIN {outbox} AS hot ON hot.seq = page.seq
LEFT JOIN flight ON flight.seq = hot.seq
