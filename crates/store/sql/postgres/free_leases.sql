-- Takes every shard from whoever had it last: what is settled under an old lease is stale.
-- $1 whether relays compete from here on.
-- Index: the primary key of the tally. Locks: the rows of leases and tallies, which are open.
WITH freed AS (
    UPDATE {outbox}_lease AS lease
    SET owner = '', fence = lease.fence + 1,
        since = CASE WHEN $1::boolean THEN 0 ELSE lease.fence + 1 END,
        lease_until = 0, out_seq = '{}', out_until = '{}', out_fence = '{}'
    WHERE lease.shard IS NOT NULL
    RETURNING lease.shard, lease.since
)
UPDATE {outbox}_tally AS tally SET owner = '', since = freed.since
FROM freed
WHERE tally.shard = freed.shard
