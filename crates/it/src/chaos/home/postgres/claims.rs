//! What is written down where relays compete for rows: who claimed each row last, and who changed
//! it. What was in flight for too long anybody may set down as unexplained, so that is left out.

/// A hot row is claimed in the line of its shard, and a later one in itself, here of shard -1. What
/// changes a row is noted when it commits.
pub(super) const NOTES: &str = "
    CREATE TABLE chaos_change (
        number bigint GENERATED ALWAYS AS IDENTITY, event_id text, relay text, owner text
    );
    CREATE TABLE chaos_claim (
        shard int, seq bigint, fence bigint, relay text, PRIMARY KEY (shard, seq, fence)
    );
    CREATE FUNCTION note_claims() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_claim (shard, seq, fence, relay)
        SELECT NEW.shard, out.seq, out.fence, split_part(session_user::text, '_', 3)
        FROM unnest(NEW.out_seq, NEW.out_fence) AS out (seq, fence)
        ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_claim (shard, seq, fence, relay)
        VALUES (-1, NEW.number, NEW.fence, split_part(session_user::text, '_', 3));
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_hot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_change (event_id, relay, owner)
        SELECT OLD.event_id, split_part(session_user::text, '_', 3), claim.relay
        FROM chaos_claim AS claim WHERE claim.shard = OLD.shard AND claim.seq = OLD.seq
            AND NOT EXISTS (SELECT 1 FROM outbox_later AS later
                WHERE later.event_id = OLD.event_id AND later.unexplained > 0)
        ORDER BY claim.fence DESC LIMIT 1;
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_later() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_change (event_id, relay, owner)
        SELECT OLD.event_id, split_part(session_user::text, '_', 3), claim.relay
        FROM chaos_claim AS claim WHERE claim.shard = -1 AND claim.seq = OLD.number
        ORDER BY claim.fence DESC LIMIT 1;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_claims AFTER UPDATE ON outbox_lease FOR EACH ROW
        WHEN (NEW.shard IS NOT NULL AND OLD.out_fence <> NEW.out_fence)
        EXECUTE FUNCTION note_claims();
    CREATE TRIGGER note_claim AFTER UPDATE ON outbox_later FOR EACH ROW
        WHEN (OLD.fence <> NEW.fence) EXECUTE FUNCTION note_claim();
    CREATE CONSTRAINT TRIGGER note AFTER DELETE ON outbox
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (session_user <> 'postgres') EXECUTE FUNCTION note_hot();
    CREATE TRIGGER note AFTER DELETE ON outbox_later FOR EACH ROW
        WHEN (session_user <> 'postgres') EXECUTE FUNCTION note_later();
    CREATE TRIGGER note_end AFTER UPDATE ON outbox_later FOR EACH ROW
        WHEN (OLD.unexplained > NEW.unexplained) EXECUTE FUNCTION note_later();
    CREATE TABLE sale (event_id text PRIMARY KEY);
    GRANT ALL ON ALL TABLES IN SCHEMA public TO {name};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}";
