//! What PostgreSQL's answers mean to a caller: wait and ask again, or stop and tell a person.

use event::{Cause, Code, StoreError};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::whole::MAKE;

/// Tells whether the same work may succeed at once: it met another's, and one had to yield.
pub(super) fn yields(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    error.code().is_some_and(|state| gives_way(&state))
}

fn gives_way(state: &str) -> bool {
    matches!(state, "40001" | "40P01")
}

/// Tells whether the server gave up a lone statement: what is worse than an error ends the session,
/// and leaves in doubt what was written down.
pub(super) fn undone(error: &sqlx::Error) -> bool {
    let told = error.as_database_error().and_then(|it| it.try_downcast_ref::<PgDatabaseError>());
    told.is_some_and(|told| told.severity() == PgSeverity::Error)
}

/// Tells whether the account lacks a right.
pub(super) fn denied(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42501"))
}

/// Judges an error by its SQLSTATE.
pub(super) fn judge(error: &sqlx::Error) -> StoreError {
    let database = match error {
        sqlx::Error::Database(database) => database,
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => {
            return StoreError::Down(Cause::new(Code::StoreDown, error));
        }
        _ => return StoreError::Broken(Cause::new(Code::StoreBroken, error)),
    };
    verdict(&database.code().unwrap_or_default(), database.message())
}

/// Says what an SQLSTATE means, and what to do about it.
fn verdict(state: &str, said: &str) -> StoreError {
    let cause = |code, advice: &str| Cause::new(code, format!("{said} ({state}){advice}"));
    let down = |code, advice| StoreError::Down(cause(code, advice));
    let broken = |code, advice| StoreError::Broken(cause(code, advice));
    match state {
        // Serialization, deadlock, lock not available, timed out, an aborted transaction.
        "40001" | "40P01" | "55P03" | "57014" | "25P02" => down(Code::StoreBusy, ""),
        "42P01" | "42703" => broken(Code::SchemaMissing, MAKE),
        "28P01" | "28000" => {
            broken(Code::StoreBroken, "; check the user and the password of the outbox's url")
        }
        "3D000" => broken(Code::StoreBroken, "; check the database of the outbox's url"),
        "42501" => broken(
            Code::StoreBroken,
            "; grant it to the user of the outbox's url (postbox migrate --grants shows how)",
        ),
        "53300" => down(Code::StoreBusy, "; raise max_connections, or lower what others keep open"),
        // What PgBouncer says to the settings of a session.
        "08P01" if said.starts_with("unsupported startup parameter") => broken(
            Code::StoreBroken,
            "; the relay needs sessions of its own: go around the pooler, to the server itself",
        ),
        "42704" if said.contains("configuration parameter") => {
            broken(Code::StoreBroken, "; an outbox needs PostgreSQL 13 or newer")
        }
        // After a failover the address leads to a standby for a while.
        "25006" => down(Code::StoreDown, "; the server takes no writes now"),
        // Whoever slept in a transaction is cut off by the server, and may come back.
        "25P03" | "25P04" => down(Code::StoreDown, ""),
        // Text that no UTF-8 database can keep.
        "22021" => broken(Code::BadEvent, ""),
        "XX001" | "XX002" => {
            broken(Code::StoreBroken, "; the data or an index of this database is damaged")
        }
        // A session that lost what it had prepared.
        "26000" => down(Code::StoreDown, ""),
        // Connections, resources, shutdown, what the server's disk or memory did, and what it did
        // not expect, such as a table that another session just changed.
        state if ["08", "53", "57", "58", "XX"].iter().any(|class| state.starts_with(class)) => {
            down(Code::StoreDown, "")
        }
        _ => broken(Code::StoreBroken, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_missing_says_how_it_is_granted() {
        let said = verdict("42501", "permission denied for table outbox").to_string();
        assert!(said.contains("postbox migrate --grants"), "{said}");
    }

    #[test]
    fn a_server_that_takes_no_settings_says_what_is_needed() {
        let pooler = verdict("08P01", "unsupported startup parameter: options");
        assert!(matches!(&pooler, StoreError::Broken(_)), "{pooler}");
        assert!(pooler.to_string().contains("go around the pooler"), "{pooler}");
        let old = verdict("42704", "unrecognized configuration parameter \"plan_cache_mode\"");
        assert!(old.to_string().contains("PostgreSQL 13 or newer"), "{old}");
        let other = verdict("08P01", "invalid frontend word");
        assert!(matches!(&other, StoreError::Down(_)), "{other}");
    }

    #[test]
    fn what_met_another_is_done_again_and_nothing_else() {
        for state in ["40001", "40P01"] {
            assert!(gives_way(state), "{state}");
            // Once it was done again in vain, it may still be asked for.
            assert!(matches!(verdict(state, ""), StoreError::Down(_)), "{state}");
        }
        // A commit of which nobody knows, a duplicate, a lock or a time limit, an aborted
        // transaction, a standby, a server that stops.
        for state in ["40003", "23505", "55P03", "57014", "25P02", "25006", "57P01", "08006"] {
            assert!(!gives_way(state), "{state}");
        }
        assert!(!yields(&sqlx::Error::PoolTimedOut), "the server said nothing");
    }

    #[test]
    fn a_table_that_is_not_there_leads_to_what_works_whether_it_ever_was() {
        let said = verdict("42P01", "no such table").to_string();
        assert!(said.contains("makes tables that nobody has made"), "{said}");
        assert!(said.contains("about one that is gone"), "{said}");
    }

    #[test]
    fn what_a_person_must_mend_is_broken_and_the_rest_may_be_asked_again() {
        for (state, code) in [
            ("42P01", Code::SchemaMissing),
            ("28P01", Code::StoreBroken),
            ("3D000", Code::StoreBroken),
            ("22021", Code::BadEvent),
            ("XX001", Code::StoreBroken),
            ("XX002", Code::StoreBroken),
        ] {
            let StoreError::Broken(cause) = verdict(state, "") else { panic!("{state}") };
            assert_eq!(cause.code, code, "{state}");
        }
        for (state, code) in [
            ("53300", Code::StoreBusy),
            ("40P01", Code::StoreBusy),
            ("25006", Code::StoreDown),
            ("25P03", Code::StoreDown),
            ("25P04", Code::StoreDown),
            ("26000", Code::StoreDown),
            ("53100", Code::StoreDown),
            ("53200", Code::StoreDown),
            ("53400", Code::StoreDown),
            ("57014", Code::StoreBusy),
            ("57P01", Code::StoreDown),
            ("57P02", Code::StoreDown),
            ("57P03", Code::StoreDown),
            ("XX000", Code::StoreDown),
        ] {
            let StoreError::Down(cause) = verdict(state, "") else { panic!("{state}") };
            assert_eq!(cause.code, code, "{state}");
        }
    }
}
