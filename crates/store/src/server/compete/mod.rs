//! Relays that compete for rows: a claim opens the line of a shard for a moment, reads its hot
//! rows, and names there those that it takes. No row is moved before its outcome is known.
//!
//! Rows are read as under `own`, above a cursor and with a look back at what was committed late.
//! What differs is who may have a row: not the owner of its shard, but whoever's claim names it.

mod adopt;
mod claim;
mod lane;
mod see;
mod settle;
mod win;

pub(super) use self::adopt::{adopt, unchanged};
pub(super) use self::lane::CompetingLane;
pub(crate) use self::see::{Seen, Waits};
pub(super) use self::win::Rivals;
