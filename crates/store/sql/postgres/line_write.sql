-- Writes down what open lines say: their fences, and which hot rows are in flight.
-- $1 shards, $2 the newest claims' fences, $3 from where and $4 up to where their rows stand among
-- $5, the rows in flight, $6, until when they are, and $7, the fences of their claims.
-- Index: the primary key of the lease. Locks: the rows named, which are open.
UPDATE {outbox}_lease AS lease
SET fence = named.fence, out_seq = ($5::bigint[])[named.first:named.last],
    out_until = ($6::bigint[])[named.first:named.last],
    out_fence = ($7::bigint[])[named.first:named.last]
FROM unnest($1::smallint[], $2::bigint[], $3::integer[], $4::integer[])
    AS named (shard, fence, first, last)
WHERE lease.name = 'shard:' || named.shard
