//! Why an event was not put down or taken in.

use event::{Invalid, StoreError};
use thiserror::Error;

/// Why an event was not put down or taken in. The transaction should be rolled back.
#[derive(Debug, Error)]
pub enum Error {
    /// It is not an event that every database and broker can carry.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The connection has no open transaction, so the event would stand without its business data.
    #[error(
        "the connection has no open transaction; begin one, write your data and the event in it, \
         then commit"
    )]
    NoTransaction,
    /// The database refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}
