-- Reads which relays are there, and who has which shards.
-- $1 the clock or NULL for the database's, $2 how long a relay is there that says so. One that says
-- so for longer than any was told by a clock that was ahead.
-- Index: none; both tables are small. Locks nothing.
SELECT relay.name, (
        SELECT COUNT(*) FROM {outbox}_lease AS lease
        WHERE lease.owner = relay.name AND lease.shard >= 0
            AND lease.lease_until > COALESCE($1, {clock})
    ) AS shards
FROM {outbox}_relay AS relay
WHERE relay.seen_until BETWEEN COALESCE($1, {clock}) + 1 AND COALESCE($1, {clock}) + 10 * $2
