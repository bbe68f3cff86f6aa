-- Settles published hot rows at one stroke, without history. A shard that does not come back has a
-- newer fence, and nothing of it was changed.
-- $1 the clock, which is not asked, $2 the owner, $3 shards, $4 their fences, $5 how many were
-- published; $6 shards, $7 numbers, $8 broker ids, which are not kept.
-- Index: the primary keys of the lease and of the hot table. Locks: the leases named, in one order
-- for everybody, and the rows that go.
WITH want AS MATERIALIZED (
    SELECT lease.name, named.shard, named.fence, named.done
    FROM unnest($3::smallint[], $4::bigint[], $5::bigint[]) AS named (shard, fence, done)
    JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || named.shard
    WHERE lease.owner = $2 AND lease.fence = named.fence
    ORDER BY lease.name
    FOR NO KEY UPDATE OF lease
),
counted AS (
    UPDATE {outbox}_lease AS lease SET sent = lease.sent + want.done
    FROM want
    WHERE lease.name = want.name AND lease.owner = $2 AND lease.fence = want.fence
    RETURNING want.shard
),
gone AS (
    DELETE FROM {outbox} AS hot
    USING counted, unnest($6::smallint[], $7::bigint[], $8::text[]) AS ends (shard, seq, broker_id)
    WHERE ends.shard = counted.shard AND hot.shard = ends.shard AND hot.seq = ends.seq
        AND ($1::bigint IS NULL OR true)
)
SELECT shard FROM counted
