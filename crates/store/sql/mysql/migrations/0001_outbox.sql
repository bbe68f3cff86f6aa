-- The tables of an outbox. A row's table is its state.
-- Times are milliseconds since 1970 by the database's clock; the view shows them as timestamps.
-- Each statement may be run again: a server of this family commits every one by itself, so a
-- migration that broke half way goes on from there.

-- What waits now. It has one index, its primary key, and stays small. The shard is a default and
-- no generated column, because MariaDB refuses one in a primary key. Each shard has a partition.
CREATE TABLE IF NOT EXISTS {outbox} (
    seq BIGINT NOT NULL AUTO_INCREMENT,
    event_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()),
    topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    event_type VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    biz_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload_bytes LONGBLOB,
    headers TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('{}'),
    created_at BIGINT NOT NULL
        DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000),
    shard SMALLINT NOT NULL DEFAULT (CRC32(COALESCE(biz_key, event_id)) % {shards}),
    PRIMARY KEY (seq, shard),
    CONSTRAINT {outbox}_id CHECK (event_id
        REGEXP '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'),
    CONSTRAINT {outbox}_topic CHECK (LENGTH(topic) BETWEEN 1 AND 255),
    CONSTRAINT {outbox}_type CHECK (LENGTH(event_type) BETWEEN 1 AND 255),
    CONSTRAINT {outbox}_key CHECK (LENGTH(biz_key) BETWEEN 1 AND 255),
    CONSTRAINT {outbox}_payload CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT {outbox}_headers CHECK (JSON_TYPE(headers) = 'OBJECT')
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC {partitions};

-- What is due later: delayed by its producer, or backing off. `seq` is its number when it was hot.
CREATE TABLE IF NOT EXISTS {outbox}_later (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    seq BIGINT NOT NULL DEFAULT 0,
    event_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()),
    topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    event_type VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    biz_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload_bytes LONGBLOB,
    headers TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('{}'),
    created_at BIGINT NOT NULL
        DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000),
    shard SMALLINT NOT NULL DEFAULT (CRC32(COALESCE(biz_key, event_id)) % {shards}),
    due_at BIGINT NOT NULL,
    attempts INT NOT NULL DEFAULT 0,
    unexplained INT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    trail MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    moved_at BIGINT NOT NULL
        DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000),
    KEY {outbox}_later_due (shard, due_at, number),
    KEY {outbox}_later_soon (due_at, shard),
    KEY {outbox}_later_holders (shard, attempts, biz_key, topic, seq),
    KEY {outbox}_later_out (unexplained, due_at),
    KEY {outbox}_later_created (created_at, event_id),
    KEY {outbox}_later_new (attempts, number),
    CONSTRAINT {outbox}_later_id CHECK (event_id
        REGEXP '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'),
    CONSTRAINT {outbox}_later_topic CHECK (LENGTH(topic) BETWEEN 1 AND 255),
    CONSTRAINT {outbox}_later_type CHECK (LENGTH(event_type) BETWEEN 1 AND 255),
    CONSTRAINT {outbox}_later_key CHECK (LENGTH(biz_key) BETWEEN 1 AND 255),
    CONSTRAINT {outbox}_later_payload CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT {outbox}_later_headers CHECK (JSON_TYPE(headers) = 'OBJECT')
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What was given up and waits for a person. Nothing deletes from it but a requeue.
CREATE TABLE IF NOT EXISTS {outbox}_dead (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    seq BIGINT NOT NULL,
    event_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    event_type VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    biz_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload_bytes LONGBLOB,
    headers TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT NOT NULL,
    attempts INT NOT NULL,
    trail MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    dead_at BIGINT NOT NULL,
    KEY {outbox}_dead_id (event_id),
    KEY {outbox}_dead_created (created_at, event_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What was published, for as long as history is kept: a ring of 16 days, each in a partition of its
-- own, so that a day goes at once. A row's day is that of `sent_at`. Numbers grow with it.
CREATE TABLE IF NOT EXISTS {outbox}_sent (
    number BIGINT NOT NULL AUTO_INCREMENT,
    seq BIGINT NOT NULL,
    event_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    event_type VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    biz_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload_bytes LONGBLOB,
    headers TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT NOT NULL,
    attempts INT NOT NULL,
    trail MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    broker_message_id TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    sent_at BIGINT NOT NULL,
    slot TINYINT NOT NULL DEFAULT (sent_at DIV 86400000 % 16),
    PRIMARY KEY (number, slot),
    KEY {outbox}_sent_id (event_id),
    KEY {outbox}_sent_key (biz_key, created_at, event_id),
    KEY {outbox}_sent_created (created_at, event_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
    PARTITION BY HASH (slot) PARTITIONS 16;

-- Who owns what, and until when. `fence` is the newest claim's, and `since` the one with which the
-- lease was taken. `out_rows` names the hot rows in flight, with when their claims end. Where
-- relays compete nobody owns a shard: `since` is 0, `out_rows` says in which claim each row is as
-- well, and `owner` is who has named the line for himself, with `preempt`. The row of shard -1 is
-- the lease of the chores.
CREATE TABLE IF NOT EXISTS {outbox}_lease (
    shard SMALLINT NOT NULL PRIMARY KEY,
    owner VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    fence BIGINT NOT NULL DEFAULT 0,
    since BIGINT NOT NULL DEFAULT 0,
    lease_until BIGINT NOT NULL DEFAULT 0,
    out_rows LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ('')
) ENGINE = InnoDB;
INSERT INTO {outbox}_lease (shard) VALUES {leases}
ON DUPLICATE KEY UPDATE fence = {outbox}_lease.fence;

-- What a settlement goes by, so that it waits for no renewal: who owns the shard and since when, as
-- its lease says, and how many were ever published. Whoever opens both opens the lease first.
CREATE TABLE IF NOT EXISTS {outbox}_tally (
    shard SMALLINT NOT NULL PRIMARY KEY,
    owner VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    since BIGINT NOT NULL DEFAULT 0,
    sent BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT INTO {outbox}_tally (shard)
SELECT lease.shard FROM {outbox}_lease AS lease WHERE lease.shard >= 0
ON DUPLICATE KEY UPDATE sent = {outbox}_tally.sent;

-- Which relays are there. A relay that is not seen in time has no share of the shards.
CREATE TABLE IF NOT EXISTS {outbox}_relay (
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    seen_until BIGINT NOT NULL
) ENGINE = InnoDB;

-- What each consumer group has taken in. A group's name is compared byte by byte.
CREATE TABLE IF NOT EXISTS {outbox}_inbox (
    group_name VARBINARY(1020) NOT NULL,
    event_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    status VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempts INT NOT NULL,
    fence BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    last_error TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (group_name, event_id),
    KEY {outbox}_inbox_updated (updated_at),
    CONSTRAINT {outbox}_inbox_status CHECK (status IN ('PROCESSING', 'PROCESSED', 'FAILED'))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- All of it as one, under the names that people know. What is due after the year 9999 is shown as
-- due at its end.
CREATE OR REPLACE VIEW {outbox}_events AS
SELECT hot.event_id AS id, hot.event_id, hot.topic, hot.event_type, hot.biz_key, hot.payload,
    hot.payload_bytes, hot.headers,
    CASE WHEN CASE WHEN lease.since > 0 THEN lease.lease_until ELSE CAST(SUBSTRING_INDEX(
        SUBSTRING_INDEX(lease.out_rows, CONCAT(' ', hot.seq, ':'), -1), ':', 1) AS SIGNED) END
        > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
        THEN 'DISPATCHING' ELSE 'NEW' END AS status,
    CASE WHEN lease.shard IS NULL THEN 0 ELSE 1 END AS attempts,
    TIMESTAMPADD(MICROSECOND, 1000 * COALESCE(CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(
        lease.out_rows, CONCAT(' ', hot.seq, ':'), -1), ' ', 1), ':', 1) AS SIGNED),
        hot.created_at), TIMESTAMP'1970-01-01 00:00:00') AS next_attempt_at,
    NULL AS last_error, NULL AS broker_message_id,
    TIMESTAMPADD(MICROSECOND, hot.created_at * 1000, TIMESTAMP'1970-01-01 00:00:00') AS created_at,
    TIMESTAMPADD(MICROSECOND, hot.created_at * 1000, TIMESTAMP'1970-01-01 00:00:00') AS updated_at
FROM {outbox} AS hot LEFT JOIN {outbox}_lease AS lease ON lease.shard = hot.shard
    AND lease.out_rows LIKE CONCAT('% ', hot.seq, ':%')
UNION ALL
SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    CASE WHEN unexplained > 0 AND due_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
        UTC_TIMESTAMP(6)) DIV 1000 THEN 'DISPATCHING' WHEN attempts = 0 THEN 'NEW'
        ELSE 'RETRY' END,
    attempts, TIMESTAMPADD(MICROSECOND, LEAST(due_at, 253402300799999) * 1000,
        TIMESTAMP'1970-01-01 00:00:00'),
    CONCAT(JSON_UNQUOTE(JSON_EXTRACT(trail, CONCAT('$[', GREATEST(JSON_LENGTH(trail), 1) - 1,
        '].cause.code'))), ': ', JSON_UNQUOTE(JSON_EXTRACT(trail, CONCAT('$[',
        GREATEST(JSON_LENGTH(trail), 1) - 1, '].cause.detail')))),
    NULL, TIMESTAMPADD(MICROSECOND, created_at * 1000, TIMESTAMP'1970-01-01 00:00:00'),
    TIMESTAMPADD(MICROSECOND, moved_at * 1000, TIMESTAMP'1970-01-01 00:00:00')
FROM {outbox}_later
UNION ALL
SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    'DEAD',
    attempts, NULL,
    CONCAT(JSON_UNQUOTE(JSON_EXTRACT(trail, CONCAT('$[', GREATEST(JSON_LENGTH(trail), 1) - 1,
        '].cause.code'))), ': ', JSON_UNQUOTE(JSON_EXTRACT(trail, CONCAT('$[',
        GREATEST(JSON_LENGTH(trail), 1) - 1, '].cause.detail')))),
    NULL, TIMESTAMPADD(MICROSECOND, created_at * 1000, TIMESTAMP'1970-01-01 00:00:00'),
    TIMESTAMPADD(MICROSECOND, dead_at * 1000, TIMESTAMP'1970-01-01 00:00:00')
FROM {outbox}_dead
UNION ALL
SELECT event_id, event_id, topic, event_type, biz_key, payload, payload_bytes, headers,
    'SENT',
    attempts, NULL,
    CONCAT(JSON_UNQUOTE(JSON_EXTRACT(trail, CONCAT('$[', GREATEST(JSON_LENGTH(trail), 1) - 1,
        '].cause.code'))), ': ', JSON_UNQUOTE(JSON_EXTRACT(trail, CONCAT('$[',
        GREATEST(JSON_LENGTH(trail), 1) - 1, '].cause.detail')))),
    broker_message_id,
    TIMESTAMPADD(MICROSECOND, created_at * 1000, TIMESTAMP'1970-01-01 00:00:00'),
    TIMESTAMPADD(MICROSECOND, sent_at * 1000, TIMESTAMP'1970-01-01 00:00:00')
FROM {outbox}_sent;
