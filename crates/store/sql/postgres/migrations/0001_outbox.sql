-- The tables of an outbox. A row's table is its state.
-- Times are milliseconds since 1970 by the database's clock; the view shows them as timestamps.

-- What waits now. It has one index, its primary key, and stays small. A number is drawn only after
-- the transaction has an id: that is how a relay knows who may still write below what it has read.
CREATE SEQUENCE {outbox}_seq CACHE 1;
CREATE TABLE {outbox} (
    seq bigint NOT NULL
        DEFAULT (CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('{outbox}_seq') END),
    event_id text COLLATE "C" NOT NULL DEFAULT overlay(overlay(gen_random_uuid()::text
        PLACING overlay(
            lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000)::bigint), 12, '0')
            PLACING '-' FROM 9 FOR 0) FROM 1 FOR 13) PLACING '7' FROM 15 FOR 1),
    topic text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    biz_key text COLLATE "C",
    payload text,
    payload_bytes bytea,
    headers text NOT NULL DEFAULT '{}',
    created_at bigint NOT NULL DEFAULT (date_part('epoch', clock_timestamp()) * 1000)::bigint,
    shard smallint NOT NULL GENERATED ALWAYS AS
        ((hashtextextended(coalesce(biz_key, event_id), 0) & {mask})::smallint) STORED,
    PRIMARY KEY (shard, seq),
    CONSTRAINT event_id_is_a_lowercase_uuid CHECK (event_id::uuid::text = event_id),
    CONSTRAINT topic_has_1_to_255_bytes CHECK (octet_length(topic) BETWEEN 1 AND 255),
    CONSTRAINT event_type_has_1_to_255_bytes CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    CONSTRAINT biz_key_has_1_to_255_bytes CHECK (octet_length(biz_key) BETWEEN 1 AND 255),
    CONSTRAINT exactly_one_of_payload_and_payload_bytes
        CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT headers_is_a_json_object CHECK (json_typeof(headers::json) = 'object')
) WITH (fillfactor = 100, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
    autovacuum_vacuum_cost_delay = 0);
ALTER SEQUENCE {outbox}_seq OWNED BY {outbox}.seq;

-- What is due later: delayed by its producer, or backing off. `seq` is its number when it was hot.
CREATE SEQUENCE {outbox}_later_number CACHE 1;
CREATE TABLE {outbox}_later (
    number bigint PRIMARY KEY DEFAULT
        (CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('{outbox}_later_number') END),
    seq bigint NOT NULL DEFAULT 0,
    event_id text COLLATE "C" NOT NULL DEFAULT overlay(overlay(gen_random_uuid()::text
        PLACING overlay(
            lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000)::bigint), 12, '0')
            PLACING '-' FROM 9 FOR 0) FROM 1 FOR 13) PLACING '7' FROM 15 FOR 1),
    topic text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    biz_key text COLLATE "C",
    payload text,
    payload_bytes bytea,
    headers text NOT NULL DEFAULT '{}',
    created_at bigint NOT NULL DEFAULT (date_part('epoch', clock_timestamp()) * 1000)::bigint,
    shard smallint NOT NULL GENERATED ALWAYS AS
        ((hashtextextended(coalesce(biz_key, event_id), 0) & {mask})::smallint) STORED,
    due_at bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    unexplained integer NOT NULL DEFAULT 0,
    fence bigint NOT NULL DEFAULT 0,
    trail text,
    moved_at bigint NOT NULL DEFAULT (date_part('epoch', clock_timestamp()) * 1000)::bigint,
    CONSTRAINT event_id_is_a_lowercase_uuid CHECK (event_id::uuid::text = event_id),
    CONSTRAINT topic_has_1_to_255_bytes CHECK (octet_length(topic) BETWEEN 1 AND 255),
    CONSTRAINT event_type_has_1_to_255_bytes CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    CONSTRAINT biz_key_has_1_to_255_bytes CHECK (octet_length(biz_key) BETWEEN 1 AND 255),
    CONSTRAINT exactly_one_of_payload_and_payload_bytes
        CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT headers_is_a_json_object CHECK (json_typeof(headers::json) = 'object')
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000, vacuum_truncate = off);
ALTER SEQUENCE {outbox}_later_number OWNED BY {outbox}_later.number;
-- The sum keeps a planner that thinks the table empty from looking numbers up in this index.
CREATE INDEX {outbox}_later_due ON {outbox}_later (shard, due_at, (number + 0));
CREATE INDEX {outbox}_later_holders ON {outbox}_later (shard, biz_key, topic, seq, number)
    WHERE attempts > 0 AND biz_key IS NOT NULL;
CREATE INDEX {outbox}_later_out ON {outbox}_later (due_at) WHERE unexplained > 0;
CREATE INDEX {outbox}_later_created ON {outbox}_later (created_at, event_id);
CREATE INDEX {outbox}_later_new ON {outbox}_later (number) WHERE attempts = 0;

-- What was given up and waits for a person. Nothing deletes from it but a requeue.
CREATE TABLE {outbox}_dead (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq bigint NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    biz_key text COLLATE "C",
    payload text,
    payload_bytes bytea,
    headers text NOT NULL,
    created_at bigint NOT NULL,
    attempts integer NOT NULL,
    trail text NOT NULL,
    dead_at bigint NOT NULL
);
CREATE INDEX {outbox}_dead_id ON {outbox}_dead (event_id);
CREATE INDEX {outbox}_dead_created ON {outbox}_dead (created_at);

-- What was published, for as long as history is kept: a ring of 16 days, each a table of its own,
-- so that a day goes at once. A row's day is that of `sent_at`. Nothing deletes single rows for
-- long, so they have no number; a publication of all tables still wants to know them when it does.
-- An identity of version 7 says when it was made. If that is at most 1,000 ms from `created_at`,
-- the row need not be a stray: its identity then finds it in the order of time, and it costs one
-- index entry less. Texts are compared by their bytes, which costs least; few are the same.
CREATE TABLE {outbox}_sent (
    seq bigint NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    biz_key text COLLATE "C",
    payload text,
    payload_bytes bytea,
    headers text NOT NULL,
    created_at bigint NOT NULL,
    attempts integer NOT NULL,
    trail text,
    broker_message_id text,
    sent_at bigint NOT NULL,
    stray boolean NOT NULL DEFAULT true
) PARTITION BY LIST (((sent_at / 86400000) & 15));
DO $$
DECLARE
    day text;
BEGIN
    FOR slot IN 0..15 LOOP
        day := to_hex(slot);
        EXECUTE format('CREATE TABLE {outbox}_sent_%s PARTITION OF {outbox}_sent
            FOR VALUES IN (%s) WITH (fillfactor = 100, autovacuum_vacuum_scale_factor = 0,
                autovacuum_vacuum_threshold = 100000)', day, slot);
        EXECUTE format('ALTER TABLE {outbox}_sent_%s REPLICA IDENTITY FULL', day);
        EXECUTE format('CREATE INDEX {outbox}_sent_id_%s ON {outbox}_sent_%s
            (event_id text_pattern_ops) WITH (deduplicate_items = off)', day, day);
        EXECUTE format('CREATE INDEX {outbox}_sent_key_%s ON {outbox}_sent_%s
            (biz_key text_pattern_ops, created_at) WITH (deduplicate_items = off)
            WHERE biz_key IS NOT NULL', day, day);
        EXECUTE format('CREATE INDEX {outbox}_sent_stray_%s ON {outbox}_sent_%s (created_at)
            WHERE stray', day, day);
    END LOOP;
END $$;
CREATE INDEX {outbox}_sent_id ON {outbox}_sent (event_id text_pattern_ops)
    WITH (deduplicate_items = off);
CREATE INDEX {outbox}_sent_key ON {outbox}_sent (biz_key text_pattern_ops, created_at)
    WITH (deduplicate_items = off) WHERE biz_key IS NOT NULL;
CREATE INDEX {outbox}_sent_stray ON {outbox}_sent (created_at) WHERE stray;

-- Who owns what, and until when. `fence` is the newest claim's, and `since` the one with which the
-- lease was taken. `out_seq` names the hot rows in flight, and `out_until` when their claims end.
-- Where relays compete nobody owns a shard: `since` is 0, and `out_fence` says in which claim each
-- row is in flight. The owner of `strategy` is the strategy with which the outbox is claimed, once
-- anybody has. Most of each page is left free, so that a renewal stays on it.
CREATE TABLE {outbox}_lease (
    name text COLLATE "C" PRIMARY KEY,
    shard smallint,
    owner text NOT NULL DEFAULT '',
    fence bigint NOT NULL DEFAULT 0,
    since bigint NOT NULL DEFAULT 0,
    lease_until bigint NOT NULL DEFAULT 0,
    out_seq bigint[] NOT NULL DEFAULT '{}',
    out_until bigint[] NOT NULL DEFAULT '{}',
    out_fence bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO {outbox}_lease (name, shard)
SELECT 'shard:' || shard, shard FROM generate_series(0, {mask}) AS shard;
INSERT INTO {outbox}_lease (name) VALUES ('chores'), ('strategy');

-- What a settlement goes by, so that it waits for no renewal: who owns the shard and since when, as
-- its lease says, and how many were ever published. Whoever opens both opens the lease first.
CREATE TABLE {outbox}_tally (
    shard smallint PRIMARY KEY,
    owner text NOT NULL DEFAULT '',
    since bigint NOT NULL DEFAULT 0,
    sent bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO {outbox}_tally (shard) SELECT generate_series(0, {mask});

-- Which relays are there. A relay that is not seen in time has no share of the shards.
CREATE TABLE {outbox}_relay (
    name text COLLATE "C" PRIMARY KEY,
    seen_until bigint NOT NULL
) WITH (fillfactor = 50);

-- What each consumer group has taken in.
CREATE TABLE {outbox}_inbox (
    group_name text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    attempts integer NOT NULL,
    fence bigint NOT NULL,
    lease_until bigint NOT NULL,
    last_error text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (group_name, event_id),
    CONSTRAINT status_is_known CHECK (status IN ('PROCESSING', 'PROCESSED', 'FAILED'))
) WITH (fillfactor = 80);
CREATE INDEX {outbox}_inbox_updated ON {outbox}_inbox (updated_at);

-- All of it as one, under the names that people know. What is due after the year 9999 is shown as
-- due at its end. With a clock that moves within a statement, a search would read every row of it.
CREATE VIEW {outbox}_events AS
WITH rows AS (
    SELECT event_id AS id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
        CASE WHEN CASE WHEN flight.since > 0 THEN flight.lease_until ELSE flight.until END
            > (extract(epoch FROM statement_timestamp()) * 1000)::bigint
            THEN 'DISPATCHING' ELSE 'NEW' END AS status,
        (flight.until IS NOT NULL)::int AS attempts,
        coalesce(flight.until, created_at) AS next_attempt_at, NULL AS last_error,
        NULL AS broker_message_id, created_at, created_at AS updated_at
    FROM {outbox} AS hot LEFT JOIN LATERAL (
        SELECT lease.since, lease.lease_until,
            lease.out_until[array_position(lease.out_seq, hot.seq)] AS until
        FROM {outbox}_lease AS lease
        WHERE lease.name = 'shard:' || hot.shard AND hot.seq = ANY (lease.out_seq)
    ) AS flight ON true
    UNION ALL
    SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
        CASE WHEN unexplained > 0
            AND due_at > (extract(epoch FROM statement_timestamp()) * 1000)::bigint
            THEN 'DISPATCHING' WHEN attempts = 0 THEN 'NEW' ELSE 'RETRY' END,
        attempts, least(due_at, 253402300799999),
        (trail::json -> -1 -> 'cause' ->> 'code') || ': '
        || (trail::json -> -1 -> 'cause' ->> 'detail'),
        NULL, created_at, moved_at
    FROM {outbox}_later
    UNION ALL
    SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
        'DEAD', attempts, NULL, (trail::json -> -1 -> 'cause' ->> 'code') || ': '
        || (trail::json -> -1 -> 'cause' ->> 'detail'),
        NULL, created_at, dead_at
    FROM {outbox}_dead
    UNION ALL
    SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
        'SENT', attempts, NULL, (trail::json -> -1 -> 'cause' ->> 'code') || ': '
        || (trail::json -> -1 -> 'cause' ->> 'detail'),
        broker_message_id, created_at, sent_at
    FROM {outbox}_sent
)
SELECT id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers, status, attempts,
    to_timestamp(next_attempt_at / 1000.0) AS next_attempt_at, last_error, broker_message_id,
    to_timestamp(created_at / 1000.0) AS created_at,
    to_timestamp(updated_at / 1000.0) AS updated_at
FROM rows;
