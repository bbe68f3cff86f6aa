//! What the stores that lease shards have in common: who may claim what, and what is in flight.
//!
//! It is memory and arithmetic only. The tables are right, and each store reads its own.

mod holding;
mod look;
mod share;
mod sight;

pub(crate) use self::holding::{Desk, Holding, Seen};
pub(crate) use self::look::{Look, May};
pub(crate) use self::share::{Member, heirs};
pub(crate) use self::sight::{Sight, Snapshot};
