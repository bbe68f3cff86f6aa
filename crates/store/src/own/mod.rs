//! What the stores that lease shards have in common: who may claim what, and what is in flight.
//!
//! It is memory and arithmetic only. The tables are right, and each store reads its own.

mod below;
mod desk;
mod holding;
mod look;
mod passed;
mod room;
mod share;
mod sight;

pub(crate) use self::below::{Below, runs};
pub(crate) use self::desk::{Desk, Part, Seen};
pub(crate) use self::holding::{Held, Holding, batches};
pub(crate) use self::look::{Look, May};
pub(crate) use self::passed::Passed;
pub(crate) use self::room::{Due, Next, Room};
pub(crate) use self::share::{Member, heirs};
pub(crate) use self::sight::{Begun, Mark, Snapshot};
