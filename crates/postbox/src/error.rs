//! Why an event was not put down or taken in.

use event::{Invalid, Millis, StoreError};
use thiserror::Error;

/// Why an event was not put down or taken in. The transaction should be rolled back.
#[derive(Debug, Error)]
pub enum Error {
    /// It is not an event that every database and broker can carry.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The connection has no open transaction, so the event would stand without its business data.
    /// There was none, or the server has ended it, as MySQL does after a deadlock.
    #[error(
        "the connection has no open transaction; begin one, write your data and the event in it, \
         then commit. If you did, the server has ended it, for instance after a deadlock: do all \
         of it again"
    )]
    NoTransaction,
    /// Another holder has begun to work on the event, and its lease lasts: try again later.
    #[error("another holder works on the event until {until}; try again later")]
    Busy {
        /// When its lease runs out.
        until: Millis,
    },
    /// The database refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}
