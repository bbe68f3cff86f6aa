//! What one relay holds: how it took each shard, and for each lane and shard the rows in flight.
//!
//! It is memory only, and the tables are right: whenever the two may differ in more than a claim
//! that nobody was told of, it is dropped, and the next claim takes the lease anew with a higher
//! fence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use event::{Fence, Leased, Millis};

use super::{Desk, Look, May};

/// How a shard is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// What the lease row shows as long as nobody else has taken it.
    pub(crate) mark: Fence,
    /// The newest claim's fence: each has its own.
    pub(crate) newest: Fence,
}

pub(crate) struct Holding {
    owner: String,
    /// Counts the servers that it was about: what was read under another number holds no more.
    pub(crate) era: u64,
    /// How each shard is held, by its number.
    held: Vec<Option<Held>>,
    /// Counts how often shards were taken or let go: what was seen before is not about these.
    pub(crate) changes: u64,
    /// How long the newest claim wanted its lease to last.
    pub(crate) lease: Duration,
    pub(crate) desks: Vec<Desk>,
}

impl Holding {
    pub(crate) fn new(owner: String) -> Holding {
        let (held, desks) = (Vec::new(), Vec::new());
        Holding { owner, era: 0, held, changes: 0, lease: Duration::ZERO, desks }
    }

    /// Returns how a shard is held.
    pub(crate) fn held(&self, shard: u16) -> Option<Held> {
        self.held.get(usize::from(shard)).copied().flatten()
    }

    /// Returns the shards that are held.
    pub(crate) fn shards(&self) -> Vec<u16> {
        let held = (0..).zip(&self.held).filter(|(_, held)| held.is_some());
        held.map(|(shard, _)| shard).collect()
    }

    fn mine(&self, look: &Look) -> bool {
        let held = self.held(look.shard).is_some_and(|held| held.mark == look.mark);
        look.owner == self.owner && held && look.until > Millis(0)
    }

    /// Decides what a look at the tables allows a lane.
    pub(crate) fn may(&self, lane: usize, look: &Look, lease: Duration) -> May {
        let mine = self.mine(look);
        if !mine && look.owner != self.owner && Leased::Shard.runs(look.until, look.now, lease) {
            return May::Nothing;
        }
        if mine && look.until > look.now {
            let overdue = self.desks[lane].overdue(look.shard, look.now);
            return match (look.ahead || look.is_due() || overdue, self.runs_down(look, lease)) {
                (true, _) => May::Keep,
                (false, true) => May::Renew,
                (false, false) => May::Idle,
            };
        }
        if look.hot || look.is_due() { May::Take } else { May::Idle }
    }

    /// Tells whether the lease is ours and has less than two thirds left, or far more than it
    /// should have, because the clock was set back.
    pub(crate) fn runs_down(&self, look: &Look, lease: Duration) -> bool {
        let rest = look.until.since(look.now);
        let amiss = rest * 3 < lease * 2 || rest > lease * 2;
        self.mine(look) && rest > Duration::ZERO && amiss
    }

    /// Tells whether the lease was lost to another relay. Only a higher mark proves it: a look
    /// that is older than what is held shows a lower one.
    pub(crate) fn lost(&self, look: &Look) -> bool {
        self.held(look.shard).is_some_and(|held| look.mark > held.mark)
    }

    /// Starts under a new fence, with nothing in flight.
    pub(crate) fn take(&mut self, shard: u16, fence: Fence) {
        self.lose(shard);
        self.keep(shard, Held { mark: fence, newest: fence });
    }

    /// Goes on under the fence of the newest claim.
    pub(crate) fn keep(&mut self, shard: u16, held: Held) {
        let at = usize::from(shard);
        self.held.resize(self.held.len().max(at + 1), None);
        self.held[at] = Some(held);
    }

    /// Drops everything of a shard.
    pub(crate) fn lose(&mut self, shard: u16) {
        self.changes += 1;
        if let Some(held) = self.held.get_mut(usize::from(shard)) {
            *held = None;
        }
        self.desks.iter_mut().for_each(|desk| desk.clear(shard));
    }

    /// Drops everything.
    pub(crate) fn forget(&mut self) {
        self.changes += 1;
        self.held.clear();
        self.desks.iter_mut().for_each(Desk::forget);
    }

    /// Tells whether no lane but `except` has anything of a shard in flight.
    pub(crate) fn is_quiet(&self, shard: u16, except: Option<usize>) -> bool {
        let others = self.desks.iter().enumerate().filter(|(at, _)| Some(*at) != except);
        others.into_iter().all(|(_, desk)| desk.is_quiet(shard))
    }

    /// Names the hot rows of a shard in flight, less some, by when their claims end.
    pub(crate) fn out(&self, shard: u16, less: &BTreeSet<i64>) -> Vec<(Millis, Vec<i64>)> {
        let hot = self.desks.iter().flat_map(|desk| desk.hot(shard));
        batches(hot.filter(|(seq, _)| !less.contains(seq)))
    }

    /// Returns the hot rows of a shard in flight one by one, in the order in which their claims
    /// end.
    pub(crate) fn flight(&self, shard: u16) -> Vec<(i64, Millis)> {
        let mut hot: Vec<(i64, Millis)> =
            self.desks.iter().flat_map(|desk| desk.hot(shard)).collect();
        hot.sort_by_key(|(_, until)| *until);
        hot
    }
}

/// Puts hot rows together by when their claims end.
pub(crate) fn batches(rows: impl Iterator<Item = (i64, Millis)>) -> Vec<(Millis, Vec<i64>)> {
    let mut batches: BTreeMap<Millis, Vec<i64>> = BTreeMap::new();
    for (seq, until) in rows {
        batches.entry(until).or_default().push(seq);
    }
    batches.into_iter().collect()
}
