-- Writes down what open lines say: their fences, and which hot rows are in flight.
-- $1 shards, $2 the newest claims' fences, $3 those under which rows last came back, $4 from where
-- and $5 up to where their rows stand among $6, the rows in flight, $7, until when they are, and
-- $8, the fences of their claims.
-- Index: the primary key of the lease. Locks: the rows named, which are open.
UPDATE {outbox}_lease AS lease
SET fence = named.fence, since = -named.back, out_seq = ($6::bigint[])[named.first:named.last],
    out_until = ($7::bigint[])[named.first:named.last],
    out_fence = ($8::bigint[])[named.first:named.last]
FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::integer[], $5::integer[])
    AS named (shard, fence, back, first, last)
WHERE lease.name = 'shard:' || named.shard
