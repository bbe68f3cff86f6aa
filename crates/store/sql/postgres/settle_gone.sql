-- Settles published hot rows at one stroke, without history. A shard that does not come back was
-- taken since, and nothing of it was changed.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours,
-- $5 from where and $6 up to where their rows stand among $7, the numbers, which rise in each; $8
-- shards, $9 from which number and $10 up to which one: the same rows, as runs of neighbours.
-- Index: the primary keys of the tally and of the hot table. Locks: the tallies named, in one order
-- for everybody, and the rows that go.
WITH want AS MATERIALIZED (
    SELECT tally.shard, named.first, named.last
    FROM unnest($3::smallint[], $4::bigint[], $5::integer[], $6::integer[])
        AS named (shard, since, first, last)
    JOIN {outbox}_tally AS tally ON tally.shard = named.shard
    WHERE tally.owner = $2 AND tally.since = named.since
    ORDER BY tally.shard
    FOR NO KEY UPDATE OF tally
),
counted AS (
    UPDATE {outbox}_tally AS tally SET sent = tally.sent + want.last - want.first + 1
    FROM want
    WHERE tally.shard = want.shard
    RETURNING want.shard, want.first, want.last
),
line AS MATERIALIZED (
    SELECT shard, first, ($7::bigint[])[first:last] AS seqs FROM counted
),
gone AS (
    DELETE FROM {outbox} AS hot WHERE hot.ctid = ANY (ARRAY(
        SELECT near.ctid FROM unnest($8::smallint[], $9::bigint[], $10::bigint[])
            AS run (shard, low, high)
        JOIN line ON line.shard = run.shard
        CROSS JOIN LATERAL (
            SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = run.shard
                AND hot.seq >= run.low AND hot.seq <= run.high
                AND line.seqs[width_bucket(hot.seq, line.seqs)] = hot.seq
            OFFSET 0
        ) AS near
    ))
)
SELECT shard,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
FROM counted
