//! What SQLite's answers mean to a caller: wait and ask again, or stop and tell a person.

use event::{Cause, Code, StoreError};
use thiserror::Error;

/// Why a piece of work on the database did not succeed.
#[derive(Debug, Error)]
pub(super) enum Fault {
    /// The database said so.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// It was judged already.
    #[error(transparent)]
    Judged(#[from] StoreError),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(error) => judge(&error),
            Fault::Judged(error) => error,
        }
    }
}

const ERROR: i32 = 1;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const INTERRUPT: i32 = 9;
const IOERR: i32 = 10;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;

/// Judges an error by SQLite's primary result code.
pub(super) fn judge(error: &sqlx::Error) -> StoreError {
    let down = |code| StoreError::Down(Cause::new(code, error));
    let broken = |code| StoreError::Broken(Cause::new(code, error));
    let code = match error {
        sqlx::Error::Database(database) => database.code().and_then(|code| code.parse().ok()),
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Some(IOERR),
        _ => None,
    };
    match code.map(|extended: i32| extended & 0xff) {
        Some(BUSY | LOCKED) => down(Code::StoreBusy),
        Some(NOMEM | INTERRUPT | IOERR | FULL | CANTOPEN | PROTOCOL) => down(Code::StoreDown),
        Some(ERROR) if says(error, "no such table") || says(error, "no such column") => {
            broken(Code::SchemaMissing)
        }
        _ => broken(Code::StoreBroken),
    }
}

fn says(error: &sqlx::Error, text: &str) -> bool {
    error.as_database_error().is_some_and(|error| error.message().contains(text))
}

/// Makes the answer of a handle that was closed.
pub(super) fn closed() -> StoreError {
    StoreError::Down(Cause::new(Code::StoreDown, "this handle on the outbox was closed"))
}
