//! What a claim does with each shard.

use std::time::Duration;

use event::Fence;

use crate::own::{Held, Holding, Look, May};

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
    /// Decides what a claim of a lane does with a shard, and whether it takes rows of one that it
    /// has: one that goes to another relay only `stays` to be looked after. Returns `None` if there
    /// is nothing to do.
    pub(super) fn of(
        holding: &Holding,
        lane: usize,
        look: &Look,
        stays: bool,
        lease: Duration,
    ) -> Option<Stage> {
        let (may, shard) = (holding.may(lane, look, lease), look.shard);
        let (take, keep) = (may == May::Take, may == May::Keep);
        let lapses = keep && holding.desks[lane].overdue(shard, look.now);
        let hot = take || keep && stays && look.ahead;
        let later = take || keep && stays && (look.is_due() || lapses);
        let runs_down = holding.runs_down(look, lease);
        let (held, first) = next(holding.held(shard), hot || later);
        let (front, cursor) = (look.front, holding.desks[lane].cursor(shard));
        let stage =
            Stage { shard, held, first, front, cursor, take, hot, later, lapses, runs_down };
        (hot || later || lapses || runs_down).then_some(stage)
    }

    /// Tells whether the claim may take rows of the shard.
    pub(super) fn takes(&self) -> bool {
        self.hot || self.later
    }
}

/// Returns how a claim holds a shard, and the first fence that may be its own.
fn next(held: Option<Held>, takes: bool) -> (Held, Fence) {
    let none = Held { mark: Fence::default(), newest: Fence::default() };
    let held = held.unwrap_or(none);
    let first = held.newest.next();
    let newest = if takes { first } else { held.newest };
    (Held { newest, ..held }, first)
}
