//! What PostgreSQL's answers mean to a caller: wait and ask again, or stop and tell a person.

use event::{Cause, Code, StoreError};
use thiserror::Error;

/// Why a piece of work on the database did not succeed.
#[derive(Debug, Error)]
pub(super) enum Fault {
    /// The database said so, and what was asked of it is undone.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// It was judged already.
    #[error(transparent)]
    Judged(#[from] StoreError),
}

impl Fault {
    /// Tells whether the same work may succeed at once: it met another's, and one had to yield.
    pub(super) fn yields(&self) -> bool {
        let Fault::Sql(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40001" | "40P01"))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(error) => judge(&error),
            Fault::Judged(error) => error,
        }
    }
}

/// Judges an error by its SQLSTATE.
pub(super) fn judge(error: &sqlx::Error) -> StoreError {
    let down = |code| StoreError::Down(Cause::new(code, error));
    let broken = |code| StoreError::Broken(Cause::new(code, error));
    let database = match error {
        sqlx::Error::Database(database) => database,
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            return down(Code::StoreDown);
        }
        _ => return broken(Code::StoreBroken),
    };
    let code = database.code().unwrap_or_default();
    match &*code {
        // Serialization, deadlock, lock not available, timed out, an aborted transaction.
        "40001" | "40P01" | "55P03" | "57014" | "25P02" => down(Code::StoreBusy),
        // A table or column that is not there; a privilege is another matter.
        "42P01" | "42703" => broken(Code::SchemaMissing),
        // Read only: after a failover the address leads to a standby for a while.
        "25006" => down(Code::StoreDown),
        // Text that no UTF-8 database can keep.
        "22021" => broken(Code::BadEvent),
        // Connections, resources, shutdown, and what the server's disk or memory did.
        code if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => {
            down(Code::StoreDown)
        }
        _ => broken(Code::StoreBroken),
    }
}

/// Makes the answer of a handle that was closed.
pub(super) fn closed() -> StoreError {
    StoreError::Down(Cause::new(Code::StoreDown, "this handle on the outbox was closed"))
}
