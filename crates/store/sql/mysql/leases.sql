-- Reads every lease: who has what in flight, and how many each shard has published. Where relays
-- compete, nothing lasts as long as a lease.
-- $1 the clock or NULL for the database's.
-- Index: the primary key of the tally; leases are few. Locks nothing.
SELECT COALESCE($1, {clock}), lease.shard,
    CASE WHEN lease.since > 0 THEN lease.lease_until END AS lease_until, lease.out_rows, tally.sent
FROM {outbox}_lease AS lease LEFT JOIN {outbox}_tally AS tally ON tally.shard = lease.shard
