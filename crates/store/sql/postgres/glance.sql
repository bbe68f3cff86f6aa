-- What a relay sees at one look: the clock, each shard's lease, and whether anything waits.
-- $1 the clock or NULL for the database's, $2 the owner, $3 shards, $4 where each look begins,
-- $5 due times already seen; $6 shards, $7 transactions, $8 whether any that is as new counts as
-- well, $9 from where their end shows more.
-- The next transaction is asked for after the sequence: whoever begins later draws higher numbers.
-- No transaction may be open.
-- Index: the primary keys of the lease and of the hot table, {outbox}_later_due. Locks nothing.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
),
drawn AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value('{outbox}_seq'::regclass), 0) AS seq
),
late AS MATERIALIZED (
    SELECT open.shard, min(open.seq) AS seq
    FROM unnest($6::smallint[], $7::text[], $8::boolean[], $9::bigint[])
        AS open (shard, xid, wide, seq)
    WHERE CASE WHEN open.wide THEN open.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_visible_in_snapshot(open.xid::xid8, pg_current_snapshot()) END
    GROUP BY open.shard
)
SELECT clock.now, want.shard, lease.owner, lease.since, lease.lease_until,
    CASE WHEN lease.owner = $2 AND lease.lease_until > clock.now THEN true
        ELSE (SELECT hot.seq FROM {outbox} AS hot WHERE hot.shard = want.shard
            ORDER BY hot.shard, hot.seq LIMIT 1) IS NOT NULL END AS hot,
    (SELECT hot.seq FROM {outbox} AS hot
        WHERE hot.shard = want.shard AND hot.seq > least(want.seq, late.seq)
        ORDER BY hot.shard, hot.seq LIMIT 1) AS first,
    (SELECT later.due_at FROM {outbox}_later AS later
        WHERE later.shard = want.shard AND later.due_at > $5
        ORDER BY later.shard, later.due_at LIMIT 1) AS due,
    (SELECT later.number FROM {outbox}_later AS later ORDER BY later.number DESC LIMIT 1) AS newest,
    pg_current_snapshot()::text AS snapshot, drawn.seq AS drawn,
    CASE WHEN drawn.seq >= 0 THEN age('3'::xid)::bigint END AS age
FROM clock CROSS JOIN drawn
CROSS JOIN unnest($3::smallint[], $4::bigint[]) AS want (shard, seq)
JOIN {outbox}_lease AS lease ON lease.name = 'shard:' || want.shard
LEFT JOIN late ON late.shard = want.shard
ORDER BY want.shard
