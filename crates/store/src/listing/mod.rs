//! What every listing and count of the tables has in common: which table holds what, where a page
//! ends, and what was counted. Each store reads its own tables.

mod count;
mod find;
mod place;
mod reach;
mod requeue;

pub(crate) use self::count::{RECENT, counts};
pub(crate) use self::find::{Asked, Part, Stretch, Tables, find};
pub(crate) use self::place::Place;
pub(crate) use self::reach::is_stray;
pub(crate) use self::requeue::{Revive, requeue};

/// How many rows one page or one count looks at one by one.
pub(crate) const MANY: i64 = 100_000;
