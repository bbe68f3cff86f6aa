//! PostgreSQL: each relay has an account of its own, so that every row tells who changed it.

mod claims;

use std::time::Duration;

use super::server::Words;
use super::{Manners, TwoPhase, Watch};

/// What makes a session a producer's. A relay that is stopped keeps what it has locked for
/// seconds.
const PRODUCER: &str = "SET lock_timeout = '250ms'; SET application_name = 'producer'";

/// Producers that wait for a relay, and which.
const WAITING: &str = "
    WITH slow AS MATERIALIZED (
        SELECT pid, query FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'producer'
            AND wait_event_type = 'Lock'
    )
    SELECT slow.query, holder.usename::text
    FROM slow CROSS JOIN LATERAL unnest(pg_blocking_pids(slow.pid)) AS blocking (pid)
    JOIN pg_stat_activity AS holder ON holder.pid = blocking.pid
    WHERE holder.application_name = 'postbox'";

/// What is written down when the transaction that changed a row commits: by then a relay that takes
/// a lease has taken it. A lease that is taken or handed over changes its owner by right.
const NOTES: &str = "
    CREATE TABLE chaos_change (
        number bigint GENERATED ALWAYS AS IDENTITY, event_id text, relay text, owner text
    );
    CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_change (event_id, relay, owner)
        SELECT coalesce(NEW.event_id, OLD.event_id), split_part(session_user::text, '_', 3),
            lease.owner
        FROM outbox_lease AS lease
        WHERE lease.name = 'shard:' || coalesce(NEW.shard, OLD.shard);
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_change (relay, owner)
        VALUES (split_part(session_user::text, '_', 3), OLD.owner);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER note AFTER UPDATE OR DELETE ON outbox
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (session_user <> 'postgres') EXECUTE FUNCTION note_row();
    CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON outbox_later
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (session_user <> 'postgres') EXECUTE FUNCTION note_row();
    CREATE TRIGGER note AFTER UPDATE ON outbox_lease FOR EACH ROW
        WHEN (OLD.shard IS NOT NULL AND OLD.since = NEW.since) EXECUTE FUNCTION note_lease();
    CREATE TABLE sale (event_id text PRIMARY KEY);
    GRANT ALL ON ALL TABLES IN SCHEMA public TO {name};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}";

const TWO_PHASE: TwoPhase = TwoPhase {
    begin: "BEGIN",
    prepare: "PREPARE TRANSACTION '{name}'",
    commit: "COMMIT PREPARED '{name}'",
    undo: &["ROLLBACK"],
};

pub(super) fn words(competes: bool) -> Words {
    let waited: Option<&[&str]> = Some(&["due to lock timeout", "deadlock detected"]);
    Words {
        make: &["CREATE DATABASE {name}", "CREATE ROLE {name}"],
        notes: if competes { claims::NOTES } else { NOTES }.to_owned(),
        account: &["CREATE ROLE {user} LOGIN IN ROLE {name}"],
        producer: PRODUCER,
        watch: Watch { sql: WAITING, every: Duration::from_millis(4) },
        manners: Manners { producers: 4, begin: "BEGIN", two_phase: Some(TWO_PHASE), waited },
        drop: &["DROP DATABASE {name} WITH (FORCE)"],
        accounts: "SELECT rolname::text FROM pg_roles WHERE rolname LIKE '{name}%'",
        forget: "DROP ROLE {user}",
    }
}
