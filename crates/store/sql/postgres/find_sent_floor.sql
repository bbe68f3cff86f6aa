-- Reads how far back from $1 one page searches: by $2 strays, or by $2 identities and as far as
-- their rows may be older than these, whichever is less far. $3 the clock or NULL for the
-- database's: identities beyond those that a listing begins with are not counted.
-- Index: {outbox}_sent_id and {outbox}_sent_stray, covering. Locks nothing.
SELECT floor.created_at
FROM (
    SELECT greatest(
        (
            SELECT created_at FROM {outbox}_sent WHERE stray AND created_at <= $1
            ORDER BY created_at DESC LIMIT 1 OFFSET $2
        ),
        (
            SELECT ('x0000' || left(event_id, 8) || substr(event_id, 10, 4))::bit(64)::bigint - 1001
            FROM {outbox}_sent
            WHERE event_id ~<~ (
                SELECT overlay(
                    lpad(to_hex(least(greatest($1, -1001), first.at, 281474976709654) + 1001),
                        12, '0') PLACING '-' FROM 9 FOR 0)
                FROM (
                    SELECT 7776000000 + coalesce($3::bigint,
                        (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS at
                ) AS first
            )
            ORDER BY event_id USING ~>~ LIMIT 1 OFFSET $2
        )
    ) AS created_at
    OFFSET 0
) AS floor
WHERE floor.created_at IS NOT NULL
