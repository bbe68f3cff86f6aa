-- Reads which relays are there, and who has which shards.
-- $1 the clock or NULL for the database's, $2 how long a relay is there that says so. One that says
-- so for longer than any was told by a clock that was ahead.
-- Index: none; both tables are small. Locks nothing.
SELECT relay.name, (
        SELECT count(*) FROM {outbox}_lease AS lease
        WHERE lease.owner = relay.name AND lease.shard IS NOT NULL AND lease.lease_until > clock.now
    ) AS shards
FROM (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
) AS clock
JOIN {outbox}_relay AS relay
    ON relay.seen_until BETWEEN clock.now + 1 AND clock.now + 10 * $2::bigint
