//! Why a piece of work on a server did not succeed.

use event::{Cause, Code, StoreError};
use thiserror::Error;

/// Why a piece of work did not succeed.
#[derive(Debug, Error)]
pub(crate) enum Fault {
    /// The database said so, and what was asked of it is undone.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// It was judged already.
    #[error(transparent)]
    Judged(#[from] StoreError),
}

/// Makes the answer of a handle that was closed.
pub(super) fn closed() -> StoreError {
    StoreError::Down(Cause::new(Code::StoreDown, "this handle on the outbox was closed"))
}

/// Makes the answer of a server that cannot be worked with as it is.
pub(crate) fn broken(detail: impl std::fmt::Display) -> Fault {
    StoreError::Broken(Cause::new(Code::StoreBroken, detail)).into()
}

/// Makes the answer of a server that does not answer.
pub(crate) fn down(detail: impl std::fmt::Display) -> Fault {
    StoreError::Down(Cause::new(Code::StoreDown, detail)).into()
}
