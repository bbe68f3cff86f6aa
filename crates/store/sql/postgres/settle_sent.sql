-- Settles published hot rows at one stroke, into the history. A shard that does not come back was
-- taken since, and nothing of it was changed.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 since when they are ours,
-- $5 from where and $6 up to where their rows stand among $7, the numbers, which rise in each; $8
-- shards, $9 from which number and $10 up to which one: the same rows, as runs of neighbours; $11
-- what the destinations called them, in the order of $7, or NULL if nothing; $12 whether any of
-- them is a stray: then all are written down as such, for to look each up costs more than its index
-- entry. A row that is dated ahead by more than an hour is one, too.
-- Of all relays, whoever locks the tally has the rows to itself, so both halves find the same ones:
-- a history that is read from the table costs less than one that takes each row from the hand that
-- deletes it. A row that somebody changes from outside at this moment stands there as it was
-- published; some servers then leave the changed row waiting, and it is published once more. Nobody
-- may change when it was created, by which the relay tells a stray.
-- Index: the primary keys of the tally and of the hot table. Locks: the tallies named, in one order
-- for everybody, and the rows that move.
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
spots AS MATERIALIZED (
    SELECT ARRAY(
        SELECT near.ctid FROM unnest($8::smallint[], $9::bigint[], $10::bigint[])
            AS run (shard, low, high)
        JOIN line ON line.shard = run.shard
        CROSS JOIN LATERAL (
            SELECT hot.ctid FROM {outbox} AS hot WHERE hot.shard = run.shard
                AND hot.seq >= run.low AND hot.seq <= run.high
                AND line.seqs[width_bucket(hot.seq, line.seqs)] = hot.seq
            OFFSET 0
        ) AS near
    ) AS ctids,
    coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
),
kept AS (
    INSERT INTO {outbox}_sent (seq, event_id, topic, event_type, biz_key, payload, payload_bytes,
        headers, created_at, attempts, broker_message_id, sent_at, stray)
    SELECT hot.seq, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
        hot.payload_bytes, hot.headers, hot.created_at, 1,
        CASE WHEN $11::text[] IS NOT NULL THEN (
            SELECT ($11)[line.first - 1 + width_bucket(hot.seq, line.seqs)]
            FROM line WHERE line.shard = hot.shard) END,
        (SELECT now FROM spots), $12::boolean OR hot.created_at > (SELECT now FROM spots) + 3600000
    FROM {outbox} AS hot WHERE hot.ctid = ANY ((SELECT ctids FROM spots)::tid[])
),
gone AS (
    DELETE FROM {outbox} AS hot WHERE hot.ctid = ANY ((SELECT ctids FROM spots)::tid[])
)
SELECT shard, (SELECT now FROM spots) AS now FROM counted
