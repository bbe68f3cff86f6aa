//! Relays that compete for rows: a claim reads candidates without a lock, and moves those that
//! nobody else was quicker to take.
//!
//! Candidates are read as under `own`, above a cursor and with a look back at what was committed
//! late. What differs is who may have a row: not the owner of its shard, but whoever moves it.

mod adopt;
mod claim;
mod lane;
mod see;
mod settle;
mod win;

pub(super) use self::adopt::{adopt, unchanged};
pub(super) use self::lane::CompetingLane;
pub(crate) use self::see::{Seen, Waits};
pub(crate) use self::win::Candidate;
pub(super) use self::win::Rivals;
