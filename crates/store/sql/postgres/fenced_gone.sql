-- Settles published rows under the fences of their claims, where no history is kept. A row that
-- does not come back was claimed again since, and is unchanged.
-- $1 numbers, $2 fences, $3 events, $4 the shard whose lease row counts them.
-- Index: the primary keys of the later table and of the lease. Locks: the rows that go, then the
-- lease.
WITH found AS MATERIALIZED (
    SELECT near.ctid AS at, ends.fence
    FROM unnest($1::bigint[], $2::bigint[], $3::text[])
        AS ends (number, fence, event_id)
    CROSS JOIN LATERAL (
        SELECT later.ctid, later.fence, later.event_id, later.unexplained
        FROM {outbox}_later AS later WHERE later.number = ends.number LIMIT 1
    ) AS near
    WHERE near.fence = ends.fence AND near.event_id = ends.event_id AND near.unexplained > 0
),
gone AS (
    DELETE FROM {outbox}_later AS later USING found
    WHERE later.ctid = found.at AND later.fence = found.fence
    RETURNING later.number
),
counted AS (
    UPDATE {outbox}_lease AS lease SET sent = lease.sent + (SELECT count(*) FROM gone)
    WHERE lease.name = 'shard:' || $4::smallint AND EXISTS (SELECT 1 FROM gone)
)
SELECT gone.number FROM gone
