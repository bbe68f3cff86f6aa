-- Trims history that was sent before $1, at most $2 rows of it. It looks at $3 rows that were
-- created first, at $3 that were created last before $1, and at $3 that were created last of all;
-- by identity, and so again among the strays. Rows that were created long ago and sent late stand
-- still in front of the first, and rows that their producers dated ahead are behind the second. By
-- identity it also looks at $3 that were created last an hour before $1: few of those were sent
-- after it, and the identities of version 4, which are everywhere, keep nobody from these.
-- Index: {outbox}_sent_id, {outbox}_sent_stray. Locks: the rows that go.
WITH near AS MATERIALIZED (
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
        ORDER BY event_id USING ~<~ LIMIT $3
    )
    UNION ALL
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
        WHERE event_id ~<~
            overlay(lpad(to_hex(least(greatest($1::bigint, 0), 281474976710655)), 12, '0')
                PLACING '-' FROM 9 FOR 0)
        ORDER BY event_id USING ~>~ LIMIT $3
    )
    UNION ALL
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
        WHERE event_id ~<~
            overlay(lpad(to_hex(least(greatest($1::bigint - 3600000, 0), 281474976710655)), 12, '0')
                PLACING '-' FROM 9 FOR 0)
        ORDER BY event_id USING ~>~ LIMIT $3
    )
    UNION ALL
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
        ORDER BY event_id USING ~>~ LIMIT $3
    )
    UNION ALL
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent WHERE stray
        ORDER BY created_at LIMIT $3
    )
    UNION ALL
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent
        WHERE stray AND created_at < $1
        ORDER BY created_at DESC LIMIT $3
    )
    UNION ALL
    (
        SELECT tableoid AS day, ctid AS at, sent_at FROM {outbox}_sent WHERE stray
        ORDER BY created_at DESC LIMIT $3
    )
),
old AS MATERIALIZED (
    SELECT DISTINCT near.day, near.at FROM near WHERE near.sent_at < $1 LIMIT $2
)
DELETE FROM {outbox}_sent AS sent USING old WHERE sent.ctid = old.at AND sent.tableoid = old.day
