//! What a claim does with each shard.

use event::Fence;

use crate::own::Held;

/// What a claim does with one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) shard: u16,
    /// How the shard is held, under the fence of this claim if it takes rows.
    pub(super) held: Held,
    /// The first fence that may be this claim's.
    pub(super) first: Fence,
    /// The first hot row that was seen, or the last that was claimed; the lowest comes first.
    pub(super) front: i64,
    /// Where the cursor stood.
    pub(super) cursor: i64,
    /// Whether the lease is free, and to be taken.
    pub(super) take: bool,
    /// Whether hot rows are ahead, or may be.
    pub(super) hot: bool,
    /// Whether later rows are due, or may be.
    pub(super) later: bool,
    /// Whether a claim of this lane has outlived its lease.
    pub(super) lapses: bool,
    /// Whether the lease must be renewed in any case.
    pub(super) runs_down: bool,
}

impl Stage {
    /// Tells whether the claim may take rows of the shard.
    pub(super) fn takes(&self) -> bool {
        self.hot || self.later
    }
}

/// Returns how a claim holds a shard, and the first fence that may be its own.
pub(super) fn next(held: Option<Held>, takes: bool) -> (Held, Fence) {
    let none = Held { mark: Fence::default(), newest: Fence::default() };
    let held = held.unwrap_or(none);
    let first = held.newest.next();
    let newest = if takes { first } else { held.newest };
    (Held { newest, ..held }, first)
}
