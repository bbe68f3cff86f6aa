//! What one relay holds of the shard: the lease's fence, and for each lane the rows in flight.
//!
//! It is memory only, and the tables are right: whenever the two may differ, it is dropped, and the
//! next claim takes the lease anew with a higher fence.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use event::{Address, Claim, Fence, Hand, Leased, Millis, Moment, Outcome, Shelf};

use super::glance::Glance;
use super::sift::Passed;
use crate::Lane;

/// What a relay may do, by what it holds and what it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Another relay has the lease.
    Nothing,
    /// Nothing waits.
    Idle,
    /// Nothing waits, but the lease runs down.
    Renew,
    /// Claim under the fence that it has.
    Keep,
    /// Claim under a new fence.
    Take,
}

pub(super) struct Holding {
    owner: String,
    held: Option<Fence>,
    /// How long the newest claim wanted its lease to last.
    pub(super) lease: Duration,
    pub(super) desks: Vec<Desk>,
}

impl Holding {
    pub(super) fn new(owner: String) -> Holding {
        Holding { owner, held: None, lease: Duration::ZERO, desks: Vec::new() }
    }

    pub(super) fn held(&self) -> Option<Fence> {
        self.held
    }

    fn mine(&self, glance: &Glance) -> bool {
        glance.owner == self.owner && self.held == Some(glance.fence) && glance.until > Millis(0)
    }

    /// Decides what a look at the tables allows a lane.
    pub(super) fn may(&self, lane: usize, glance: &Glance, lease: Duration) -> May {
        let mine = self.mine(glance);
        if !mine
            && glance.owner != self.owner
            && Leased::Shard.runs(glance.until, glance.now, lease)
        {
            return May::Nothing;
        }
        let due = glance.due.is_some_and(|due| due <= glance.now);
        if mine && glance.until > glance.now {
            let waits = glance.ahead || due || self.desks[lane].hand.overdue(glance.now);
            return match (waits, self.runs_down(glance, lease)) {
                (true, _) => May::Keep,
                (false, true) => May::Renew,
                (false, false) => May::Idle,
            };
        }
        if glance.hot || due { May::Take } else { May::Idle }
    }

    /// Tells whether the lease is ours and has less than two thirds left, or far more than it
    /// should have, because the clock was set back.
    pub(super) fn runs_down(&self, glance: &Glance, lease: Duration) -> bool {
        let rest = glance.until.since(glance.now);
        let amiss = rest * 3 < lease * 2 || rest > lease * 2;
        self.mine(glance) && rest > Duration::ZERO && amiss
    }

    /// Tells whether the lease was lost to another relay. Only a higher fence proves it: a look
    /// that is older than what is held shows a lower one.
    pub(super) fn lost(&self, glance: &Glance) -> bool {
        self.held.is_some_and(|held| glance.fence > held)
    }

    /// Starts under a new fence, with nothing in flight.
    pub(super) fn take(&mut self, fence: Fence) {
        self.lose();
        self.held = Some(fence);
    }

    /// Goes on under the fence of the newest claim: each has its own.
    pub(super) fn keep(&mut self, fence: Fence) {
        self.held = Some(fence);
    }

    /// Drops everything.
    pub(super) fn lose(&mut self) {
        self.held = None;
        self.desks.iter_mut().for_each(Desk::clear);
    }

    /// Names the hot rows in flight, less some, as the lease row has them.
    pub(super) fn out(&self, less: &BTreeSet<i64>) -> String {
        let hot = self.desks.iter().flat_map(|desk| &desk.hot);
        named(hot.filter(|(seq, _)| !less.contains(seq)).map(|(seq, until)| (*seq, *until)))
    }
}

/// Names hot rows by when their claims run out, as the lease row has them.
fn named(rows: impl Iterator<Item = (i64, Millis)>) -> String {
    let mut batches: BTreeMap<Millis, Vec<i64>> = BTreeMap::new();
    for (seq, until) in rows {
        batches.entry(until).or_default().push(seq);
    }
    let batches: Vec<(Millis, Vec<i64>)> = batches.into_iter().collect();
    serde_json::to_string(&batches).expect("numbers are always JSON")
}

/// What a later row in flight had behind it when it was claimed.
pub(super) struct Kept {
    pub(super) attempts: u32,
    pub(super) trail: Vec<Moment>,
}

/// Up to where a lane has looked at the later table, and in vain.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) now: Millis,
    pub(super) newest: i64,
}

/// One lane's part.
pub(super) struct Desk {
    pub(super) lane: Lane,
    pub(super) hand: Hand,
    /// Whether the hand knows which keys wait for another attempt.
    pub(super) informed: bool,
    pub(super) seen: Option<Seen>,
    pub(super) passed: Passed,
    /// Whether rows stand between this lane's own that it cannot take.
    pub(super) mixed: bool,
    /// Whether the newest claim found that another relay holds what waits.
    pub(super) stands_by: bool,
    /// The ring that the newest claim has heard.
    pub(super) heard: u64,
    /// Hot rows in flight, and until when.
    hot: BTreeMap<i64, Millis>,
    later: HashMap<i64, Kept>,
}

impl Desk {
    pub(super) fn new(lane: Lane) -> Desk {
        let hand = Hand::new(lane.order);
        let (hot, later) = (BTreeMap::new(), HashMap::new());
        Desk {
            lane,
            hand,
            informed: false,
            seen: None,
            passed: Passed::default(),
            mixed: false,
            stands_by: false,
            heard: 0,
            hot,
            later,
        }
    }

    /// Starts again with nothing.
    pub(super) fn clear(&mut self) {
        self.hand.clear();
        self.informed = false;
        self.seen = None;
        self.passed = Passed::default();
        self.mixed = false;
        self.hot.clear();
        self.later.clear();
    }

    /// Remembers a claim that the hand has taken.
    pub(super) fn keep(&mut self, claim: &Claim, until: Millis, trail: Vec<Moment>) {
        let number = claim.address.number;
        match claim.address.shelf {
            Shelf::Hot => {
                self.hot.insert(number, until);
            }
            Shelf::Later => {
                self.later.insert(number, Kept { attempts: claim.attempt, trail });
            }
        }
    }

    /// Lets go of the claims that have outlived their leases. Returns their hot rows, as the lease
    /// row names them; later rows are due by their own time.
    pub(super) fn lapse(&mut self, now: Millis) -> Option<String> {
        let lapsed = self.hand.lapse(now);
        if !lapsed.is_empty() {
            self.seen = None;
        }
        let mut hot = Vec::new();
        for Address { shelf, number, .. } in lapsed {
            match shelf {
                Shelf::Hot => hot.extend(self.hot.remove(&number).map(|until| (number, until))),
                Shelf::Later => drop(self.later.remove(&number)),
            }
        }
        (!hot.is_empty()).then(|| named(hot.into_iter()))
    }

    /// Returns what a row had behind it that is in flight under this fence.
    pub(super) fn in_flight(&self, address: Address, fence: Fence) -> Option<(u32, &[Moment])> {
        if !self.hand.has(address, fence) {
            return None;
        }
        match address.shelf {
            Shelf::Hot => self.hot.contains_key(&address.number).then_some((1, &[])),
            Shelf::Later => {
                self.later.get(&address.number).map(|kept| (kept.attempts, &kept.trail[..]))
            }
        }
    }

    /// Takes an outcome in. The row is not due before `now`, whatever becomes of it.
    pub(super) fn settle(
        &mut self,
        address: Address,
        fence: Fence,
        outcome: &Outcome,
        now: Millis,
    ) {
        match address.shelf {
            Shelf::Hot => {
                self.hot.remove(&address.number);
            }
            Shelf::Later => {
                self.later.remove(&address.number);
            }
        }
        self.hand.settle(address, fence, outcome);
        self.passed.spoil(now);
        self.seen = None;
    }

    /// Tells whether nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.hand.is_empty()
    }

    pub(super) fn hot_out(&self) -> BTreeSet<i64> {
        self.hot.keys().copied().collect()
    }

    pub(super) fn later_out(&self) -> impl Iterator<Item = i64> + '_ {
        self.later.keys().copied()
    }
}
