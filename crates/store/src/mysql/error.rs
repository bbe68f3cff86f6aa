//! What the family's answers mean to a caller: wait and ask again, or stop and tell a person.

use event::{Cause, Code, StoreError};
use sqlx::mysql::MySqlDatabaseError;

use crate::whole::MAKE;

/// Tells whether the same work may succeed at once: it met another's, and one had to yield, or a
/// day of history went after its transaction had begun. All of a transaction is undone after the
/// first two, and only the statement after the others: whoever asks again has rolled back first.
/// 1467 is MariaDB's word for any of them where a row is to get its number. 1615 met a table that
/// was changed, or pushed out of the server's cache, just then.
pub(super) fn yields(error: &sqlx::Error) -> bool {
    number(error).is_some_and(gives_way)
}

fn gives_way(number: u16) -> bool {
    matches!(number, 1213 | 1020 | 1205 | 1412 | 1467 | 1615)
}

/// Returns the number of an error of the server's.
pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

/// Tells whether the account lacks a right.
pub(super) fn denied(error: &sqlx::Error) -> bool {
    number(error).is_some_and(|number| matches!(number, 1044 | 1142 | 1143 | 1227 | 1370))
}

/// Judges an error by its number.
pub(super) fn judge(error: &sqlx::Error) -> StoreError {
    match (number(error), error) {
        (Some(number), sqlx::Error::Database(database)) => verdict(number, database.message()),
        (
            None,
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed,
        ) => StoreError::Down(Cause::new(Code::StoreDown, error)),
        _ => StoreError::Broken(Cause::new(Code::StoreBroken, error)),
    }
}

/// Says what a number means, and what to do about it.
fn verdict(number: u16, said: &str) -> StoreError {
    let cause = |code, advice: &str| Cause::new(code, format!("{said} ({number}){advice}"));
    let down = |code, advice| StoreError::Down(cause(code, advice));
    let broken = |code, advice| StoreError::Broken(cause(code, advice));
    match number {
        // Deadlock, lock wait, a changed row, too long, NOWAIT, a metadata lock, a changed table,
        // too many transactions at once.
        1213 | 1205 | 1020 | 1969 | 3024 | 3572 | 1317 | 1412 | 1467 | 1637 => {
            down(Code::StoreBusy, "")
        }
        1146 | 1054 => broken(Code::SchemaMissing, MAKE),
        1044 => broken(
            Code::StoreBroken,
            "; check the database's name in the outbox's url, and that this account was granted \
             rights on it (postbox migrate --grants shows how)",
        ),
        1045 | 1698 | 1251 => {
            broken(Code::StoreBroken, "; check the user and the password of the outbox's url")
        }
        1049 | 1046 => broken(Code::StoreBroken, "; check the database of the outbox's url"),
        1142 | 1143 | 1227 | 1370 => broken(
            Code::StoreBroken,
            "; grant it to the user of the outbox's url (postbox migrate --grants shows how)",
        ),
        1040 => down(Code::StoreBusy, "; raise max_connections, or lower what others keep open"),
        1203 | 1226 => {
            down(Code::StoreBusy, "; raise the limit of this account, or lower what others use")
        }
        // A new session has nothing prepared.
        1461 => down(
            Code::StoreDown,
            "; raise max_prepared_stmt_count, or lower what others keep prepared",
        ),
        1129 => down(
            Code::StoreDown,
            "; once the cause is mended, an administrator lets this host in again with TRUNCATE \
             performance_schema.host_cache (MariaDB: FLUSH HOSTS)",
        ),
        // After a failover the address leads to a server that only reads, for a while.
        1290 | 1836 | 1792 | 1223 | 3100 | 3101 => {
            down(Code::StoreDown, "; the server takes no writes now")
        }
        1153 | 1162 | 3013 => {
            broken(Code::BadEvent, "; put fewer or smaller events, or raise max_allowed_packet")
        }
        // Text that no utf8mb4 column can keep, or too much of it.
        1366 | 1406 | 3854 => broken(Code::BadEvent, ""),
        number if passes(number) => down(Code::StoreDown, ""),
        _ => broken(Code::StoreBroken, ""),
    }
}

/// Tells whether a new session may do better, at once or in a while: after a shutdown, where the
/// server is offline, where a session was killed, or lost or cannot make anew what it had prepared,
/// and after what the server's disk or memory did, or what it did not expect of itself.
fn passes(number: u16) -> bool {
    matches!(
        number,
        1053
            | 1042
            | 1043
            | 1077..=1080
            | 1152
            | 1158..=1161
            | 1184
            | 1243
            | 1615
            | 1815
            | 1927
            | 2006
            | 2013
            | 3032
            | 3168
            | 3169
            | 4031
            | 1021
            | 1023
            | 1026
            | 1030
            | 1037
            | 1038
            | 1041
            | 1114
            | 1135
            | 1180
            | 1188..=1190
            | 1047
            | 1206
            | 1878
            | 1..=5
            | 20
            | 23
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_missing_says_how_it_is_granted() {
        for number in [1044, 1142, 1143, 1227] {
            let said = verdict(number, "denied").to_string();
            assert!(said.contains("postbox migrate --grants"), "{said}");
        }
        let said = verdict(1044, "Access denied to database 'ordres'").to_string();
        assert!(said.contains("check the database's name") && !said.contains("password"), "{said}");
    }

    #[test]
    fn what_met_another_is_done_again_and_nothing_else() {
        for number in [1213, 1020, 1205, 1412, 1467, 1615] {
            assert!(gives_way(number), "{number}");
            // Once it was done again in vain, it may still be asked for.
            assert!(matches!(verdict(number, ""), StoreError::Down(_)), "{number}");
        }
        // A duplicate, a server that stops or only reads, one that is full, a time limit, a word.
        for number in [1062, 1053, 1290, 1836, 1040, 3024, 1969, 3572, 1317, 2013, 1064, 1146] {
            assert!(!gives_way(number), "{number}");
        }
        assert!(!yields(&sqlx::Error::PoolTimedOut), "the server said nothing");
    }

    #[test]
    fn a_table_that_is_not_there_leads_to_what_works_whether_it_ever_was() {
        let said = verdict(1146, "no such table").to_string();
        assert!(said.contains("makes tables that nobody has made"), "{said}");
        assert!(said.contains("about one that is gone"), "{said}");
    }

    #[test]
    fn what_a_person_must_mend_is_broken_and_the_rest_may_be_asked_again() {
        for (number, code) in [
            (1146, Code::SchemaMissing),
            (1045, Code::StoreBroken),
            (1049, Code::StoreBroken),
            (1142, Code::StoreBroken),
            (1153, Code::BadEvent),
            (1366, Code::BadEvent),
            (1064, Code::StoreBroken),
        ] {
            let StoreError::Broken(cause) = verdict(number, "") else { panic!("{number}") };
            assert_eq!(cause.code, code, "{number}");
        }
        for (number, code) in [
            (1040, Code::StoreBusy),
            (1203, Code::StoreBusy),
            (1226, Code::StoreBusy),
            (1637, Code::StoreBusy),
            (1213, Code::StoreBusy),
            (1205, Code::StoreBusy),
            (1020, Code::StoreBusy),
            (1467, Code::StoreBusy),
            (1412, Code::StoreBusy),
            (1290, Code::StoreDown),
            (1836, Code::StoreDown),
            (3, Code::StoreDown),
            (1042, Code::StoreDown),
            (1129, Code::StoreDown),
            (1243, Code::StoreDown),
            (1461, Code::StoreDown),
            (1615, Code::StoreDown),
            (1815, Code::StoreDown),
            (3032, Code::StoreDown),
            (1053, Code::StoreDown),
            (2013, Code::StoreDown),
        ] {
            let StoreError::Down(cause) = verdict(number, "") else { panic!("{number}") };
            assert_eq!(cause.code, code, "{number}");
        }
    }
}
