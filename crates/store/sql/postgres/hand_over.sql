-- Hands leases over: to nobody, so that anyone may take them at once, or to an heir. What is
-- settled under them from here on is stale.
-- $1 shards, $2 since when they were ours, $3 the owner, $4 the heirs, $5 until when it waits for
-- the heir.
-- Index: the primary key of the lease. Locks: the rows named, in one order for everybody.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.since, named.heir
    FROM unnest($1::smallint[], $2::bigint[], $4::text[]) AS named (shard, since, heir)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $3 AND lease.since = named.since
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
)
UPDATE {outbox}_lease AS lease
SET owner = coalesce(want.heir, lease.owner), fence = lease.fence + 1, since = lease.fence + 1,
    lease_until = CASE WHEN want.heir IS NULL THEN 0 ELSE $5 END, out_seq = '{}', out_until = '{}'
FROM want
WHERE lease.name = want.name AND lease.owner = $3 AND lease.since = want.since
