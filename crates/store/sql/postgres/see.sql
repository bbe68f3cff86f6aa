-- What a competing relay sees at one look: the clock, each shard's line and whether anything waits,
-- and whether a claim of a later row seems to last longer than any can, because a clock was ahead.
-- $1 the clock or NULL for the database's, $2 how long a claim can last, $3 shards, $4 where each
-- look begins; $5 shards, $6 transactions, $7 whether any that is as new counts as well, $8 from
-- where their end shows more.
-- The next transaction is asked for after the sequence: whoever begins later draws higher numbers.
-- No transaction may be open.
-- Index: the primary keys of the lease and of the hot table, {outbox}_later_due,
-- {outbox}_later_out. Locks nothing.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
),
drawn AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value('{outbox}_seq'::regclass), 0) AS seq
),
late AS MATERIALIZED (
    SELECT open.shard, min(open.seq) AS seq
    FROM unnest($5::smallint[], $6::text[], $7::boolean[], $8::bigint[])
        AS open (shard, xid, wide, seq)
    WHERE CASE WHEN open.wide THEN open.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_visible_in_snapshot(open.xid::xid8, pg_current_snapshot()) END
    GROUP BY open.shard
)
SELECT clock.now, want.shard,
    (SELECT hot.seq FROM {outbox} AS hot
        WHERE hot.shard = want.shard AND hot.seq > least(want.seq, late.seq)
        ORDER BY hot.shard, hot.seq LIMIT 1) IS NOT NULL AS ahead,
    (SELECT later.due_at FROM {outbox}_later AS later WHERE later.shard = want.shard
        ORDER BY later.shard, later.due_at LIMIT 1) AS due,
    (SELECT later.number FROM {outbox}_later AS later ORDER BY later.number DESC LIMIT 1) AS newest,
    pg_current_snapshot()::text AS snapshot,
    (SELECT later.due_at FROM {outbox}_later AS later
        WHERE later.unexplained > 0 AND later.due_at > clock.now + $2::bigint
        ORDER BY later.due_at LIMIT 1) IS NOT NULL AS astray,
    lease.fence, lease.out_until[1] AS ends_first,
    lease.out_until[cardinality(lease.out_until)] AS ends_last, drawn.seq AS drawn,
    CASE WHEN drawn.seq >= 0 THEN age('3'::xid)::bigint END AS age
FROM clock CROSS JOIN drawn
CROSS JOIN unnest($3::smallint[], $4::bigint[]) WITH ORDINALITY AS want (shard, seq, place)
JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || want.shard
LEFT JOIN late ON late.shard = want.shard
