-- Takes rows out of the hot table.
-- $1 shards, $2 numbers.
-- Index: the primary key of the hot table. Locks: the rows that go.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at
    FROM unnest($1::smallint[], $2::bigint[]) AS ends (shard, seq)
    CROSS JOIN LATERAL (
        SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = ends.shard AND hot.seq = ends.seq
        LIMIT 1
    ) AS near
)
DELETE FROM {outbox} AS hot USING found WHERE hot.ctid = found.at
