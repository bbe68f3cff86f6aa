//! What the stores whose relays compete for rows have in common: what a lane has in flight, where
//! it looks first, and what the line of a shard says.
//!
//! A claim opens the line of a shard for a moment, and names there the hot rows that it takes.
//! Nobody leases a shard, and no order is kept. It is memory and arithmetic only; the tables are
//! right, and each store reads its own.

mod fact;
mod flight;
mod line;
mod pace;
mod start;

pub(crate) use self::fact::{Adopt, Fact, adopt, agrees, changed};
pub(crate) use self::flight::{Flight, Out};
pub(crate) use self::line::{Line, Named};
pub(crate) use self::pace::{Pace, TRUST};
pub(crate) use self::start::Start;
