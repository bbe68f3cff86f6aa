-- The tables of an outbox. A row's table is its state.
-- Times are milliseconds since 1970 by the database's clock.

-- What waits now. It has one index, its primary key, and stays small.
CREATE TABLE {outbox} (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
        CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) >> 16,
        CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) & 65535,
        random() & 4095, 32768 | (random() & 16383), random() & 281474976710655)),
    topic TEXT NOT NULL,
    event_type TEXT NOT NULL,
    biz_key TEXT,
    payload TEXT,
    payload_bytes BLOB,
    headers TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    CONSTRAINT event_id_is_a_lowercase_uuid CHECK (length(event_id) = 36
        AND event_id GLOB '????????-????-????-????-????????????'
        AND replace(event_id, '-', '') NOT GLOB '*[^0-9a-f]*'
        AND length(replace(event_id, '-', '')) = 32),
    CONSTRAINT topic_has_1_to_255_bytes CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT event_type_has_1_to_255_bytes
        CHECK (length(CAST(event_type AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT biz_key_has_1_to_255_bytes CHECK (length(CAST(biz_key AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT exactly_one_of_payload_and_payload_bytes
        CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT headers_is_a_json_object
        CHECK (CASE WHEN json_valid(headers) THEN json_type(headers) = 'object' ELSE 0 END)
) STRICT;

-- What is due later: delayed by its producer, or backing off. `seq` is its number when it was hot.
CREATE TABLE {outbox}_later (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    seq INTEGER NOT NULL DEFAULT 0,
    event_id TEXT NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
        CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) >> 16,
        CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) & 65535,
        random() & 4095, 32768 | (random() & 16383), random() & 281474976710655)),
    topic TEXT NOT NULL,
    event_type TEXT NOT NULL,
    biz_key TEXT,
    payload TEXT,
    payload_bytes BLOB,
    headers TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    unexplained INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    trail TEXT,
    moved_at INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    CONSTRAINT event_id_is_a_lowercase_uuid CHECK (length(event_id) = 36
        AND event_id GLOB '????????-????-????-????-????????????'
        AND replace(event_id, '-', '') NOT GLOB '*[^0-9a-f]*'
        AND length(replace(event_id, '-', '')) = 32),
    CONSTRAINT topic_has_1_to_255_bytes CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT event_type_has_1_to_255_bytes
        CHECK (length(CAST(event_type AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT biz_key_has_1_to_255_bytes CHECK (length(CAST(biz_key AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT exactly_one_of_payload_and_payload_bytes
        CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT headers_is_a_json_object
        CHECK (CASE WHEN json_valid(headers) THEN json_type(headers) = 'object' ELSE 0 END)
) STRICT;
CREATE INDEX {outbox}_later_due ON {outbox}_later (due_at);
CREATE INDEX {outbox}_later_holders ON {outbox}_later (biz_key, topic, seq)
    WHERE attempts > 0 AND biz_key IS NOT NULL;
CREATE INDEX {outbox}_later_out ON {outbox}_later (due_at) WHERE unexplained > 0;
CREATE INDEX {outbox}_later_created ON {outbox}_later (created_at, event_id);
CREATE INDEX {outbox}_later_new ON {outbox}_later (attempts) WHERE attempts = 0;

-- What was given up and waits for a person. Nothing deletes from it but a requeue.
CREATE TABLE {outbox}_dead (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    event_type TEXT NOT NULL,
    biz_key TEXT,
    payload TEXT,
    payload_bytes BLOB,
    headers TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    trail TEXT NOT NULL,
    dead_at INTEGER NOT NULL
) STRICT;
CREATE INDEX {outbox}_dead_id ON {outbox}_dead (event_id);
CREATE INDEX {outbox}_dead_created ON {outbox}_dead (created_at, event_id);

-- What was published, for as long as history is kept. Numbers grow with `sent_at`, which stands
-- before the payload so that it is read without it.
CREATE TABLE {outbox}_sent (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sent_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    event_type TEXT NOT NULL,
    biz_key TEXT,
    payload TEXT,
    payload_bytes BLOB,
    headers TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    trail TEXT,
    broker_message_id TEXT
) STRICT;
CREATE INDEX {outbox}_sent_id ON {outbox}_sent (event_id);
CREATE INDEX {outbox}_sent_key ON {outbox}_sent (biz_key, created_at) WHERE biz_key IS NOT NULL;
CREATE INDEX {outbox}_sent_created ON {outbox}_sent (created_at);

-- Who owns what, and until when. `out` names the hot rows in flight, by when their claims end:
-- [[until, [seq, …]], …]. `sent` counts for ever.
CREATE TABLE {outbox}_lease (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL DEFAULT '',
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    out TEXT NOT NULL DEFAULT '[]',
    sent INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO {outbox}_lease (name) VALUES ('shard:0'), ('chores');

-- What each consumer group has taken in.
CREATE TABLE {outbox}_inbox (
    group_name TEXT NOT NULL,
    event_id TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (group_name, event_id),
    CONSTRAINT status_is_known CHECK (status IN ('PROCESSING', 'PROCESSED', 'FAILED'))
) STRICT, WITHOUT ROWID;
CREATE INDEX {outbox}_inbox_updated ON {outbox}_inbox (updated_at);

-- All of it as one, under the names that people know.
CREATE VIEW {outbox}_events AS
WITH clock (now) AS (SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
flight (seq, until, live) AS (
    SELECT named.value, batch.value ->> 0, lease.lease_until > (SELECT now FROM clock)
    FROM {outbox}_lease AS lease, json_each(lease.out) AS batch,
        json_each(batch.value, '$[1]') AS named
)
SELECT event_id AS id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    iif(flight.live, 'DISPATCHING', 'NEW') AS status, flight.seq IS NOT NULL AS attempts,
    coalesce(flight.until, created_at) AS next_attempt_at, NULL AS last_error,
    NULL AS broker_message_id, created_at, created_at AS updated_at
FROM {outbox} AS hot LEFT JOIN flight ON flight.seq = hot.seq
UNION ALL
SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    CASE WHEN unexplained > 0 AND due_at > (SELECT now FROM clock) THEN 'DISPATCHING'
        WHEN attempts = 0 THEN 'NEW' ELSE 'RETRY' END,
    attempts, due_at,
    json_extract(trail, '$[#-1].cause.code') || ': ' || json_extract(trail, '$[#-1].cause.detail'),
    NULL, created_at, moved_at
FROM {outbox}_later
UNION ALL
SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers, 'DEAD',
    attempts, NULL,
    json_extract(trail, '$[#-1].cause.code') || ': ' || json_extract(trail, '$[#-1].cause.detail'),
    NULL, created_at, dead_at
FROM {outbox}_dead
UNION ALL
SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers, 'SENT',
    attempts, NULL,
    json_extract(trail, '$[#-1].cause.code') || ': ' || json_extract(trail, '$[#-1].cause.detail'),
    broker_message_id, created_at, sent_at
FROM {outbox}_sent;
