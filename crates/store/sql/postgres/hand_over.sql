-- Hands leases over: to nobody, so that anyone may take them at once, or to an heir. What is
-- settled under them from here on is stale.
-- $1 shards, $2 since when they were ours, $3 the owner, $4 the heirs, $5 until when it waits for
-- the heir.
-- Index: the primary keys of the lease and of the tally. Locks: the leases named and then their
-- tallies, each in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, lease.shard, named.heir
    FROM unnest($1::smallint[], $2::bigint[], $4::text[]) AS named (shard, since, heir)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $3 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
),
open AS MATERIALIZED (
    SELECT tally.shard FROM {outbox}_tally AS tally
    WHERE tally.shard = ANY (ARRAY(SELECT want.shard FROM want))
    ORDER BY tally.shard
    FOR NO KEY UPDATE
),
given AS (
    UPDATE {outbox}_lease AS lease
    SET owner = coalesce(want.heir, lease.owner), fence = lease.fence + 1, since = lease.fence + 1,
        lease_until = CASE WHEN want.heir IS NULL THEN 0 ELSE $5 END, out_seq = '{}',
        out_until = '{}'
    FROM want JOIN open ON open.shard = want.shard
    WHERE lease.name = want.name
    RETURNING lease.shard, lease.owner, lease.since
)
UPDATE {outbox}_tally AS tally SET owner = given.owner, since = given.since
FROM given
WHERE tally.shard = given.shard
