//! What is written down where relays compete for rows: who claimed each row last, and who changed
//! it. What was in flight for too long anybody may set down as unexplained, so that is left out.

/// A hot row is claimed in the line of its shard, whose words are ` seq:until:fence `, and a later
/// one in itself, here of shard -1. Whoever claims or changes a row has it or its line open, so
/// nobody waits for what is read here.
pub(super) const NOTES: &str = "
    CREATE TABLE sale (event_id CHAR(36) CHARACTER SET ascii PRIMARY KEY);
    CREATE TABLE chaos_producer (id BIGINT UNSIGNED PRIMARY KEY);
    CREATE TABLE chaos_change (
        number BIGINT UNSIGNED DEFAULT (UUID_SHORT()) PRIMARY KEY,
        event_id TEXT, relay TEXT, owner TEXT
    );
    CREATE TABLE chaos_claim (
        shard INT, seq BIGINT, fence BIGINT, relay VARCHAR(20), PRIMARY KEY (shard, seq, fence)
    );
    CREATE FUNCTION who() RETURNS VARCHAR(20) NO SQL
    RETURN SUBSTRING_INDEX(SUBSTRING_INDEX(USER(), '@', 1), '_', -1);
    CREATE PROCEDURE note_claim(its INT, number BIGINT, newest BIGINT)
    INSERT INTO chaos_claim (shard, seq, fence, relay) VALUES (its, number, newest, who())
    ON DUPLICATE KEY UPDATE chaos_claim.relay = chaos_claim.relay;
    CREATE PROCEDURE note_claims(its INT, words LONGTEXT)
    BEGIN
        DECLARE word VARCHAR(80);
        SET words = TRIM(words);
        WHILE words <> '' DO
            SET word = SUBSTRING_INDEX(words, ' ', 1);
            SET words = SUBSTRING(words, LENGTH(word) + 2);
            CALL note_claim(its, SUBSTRING_INDEX(word, ':', 1), SUBSTRING_INDEX(word, ':', -1));
        END WHILE;
    END;
    CREATE PROCEDURE note_row(id CHAR(36), its INT, number BIGINT)
    IF USER() LIKE 'chaos%' THEN
        INSERT INTO chaos_change (event_id, relay, owner)
        SELECT id, who(), claim.relay
        FROM chaos_claim AS claim WHERE claim.shard = its AND claim.seq = number
        ORDER BY claim.fence DESC LIMIT 1;
    END IF;
    CREATE TRIGGER note_claims AFTER UPDATE ON outbox_lease FOR EACH ROW
    IF NEW.shard >= 0 AND OLD.out_rows <> NEW.out_rows THEN
        CALL note_claims(NEW.shard, NEW.out_rows);
    END IF;
    CREATE TRIGGER note_hot AFTER DELETE ON outbox FOR EACH ROW
    IF NOT EXISTS (SELECT 1 FROM outbox_later AS later WHERE later.shard = OLD.shard
            AND later.attempts = 1 AND later.seq = OLD.seq AND later.unexplained = 1) THEN
        CALL note_row(OLD.event_id, OLD.shard, OLD.seq);
    END IF;
    CREATE TRIGGER note_later AFTER UPDATE ON outbox_later FOR EACH ROW
    IF OLD.fence <> NEW.fence THEN
        CALL note_claim(-1, NEW.number, NEW.fence);
    ELSEIF OLD.unexplained > NEW.unexplained THEN
        CALL note_row(OLD.event_id, -1, OLD.number);
    END IF;
    CREATE TRIGGER note_end AFTER DELETE ON outbox_later FOR EACH ROW
    CALL note_row(OLD.event_id, -1, OLD.number);
";
