//! What one relay holds: each shard's fence, and for each lane and shard the rows in flight.
//!
//! It is memory only, and the tables are right: whenever the two may differ, it is dropped, and the
//! next claim takes the lease anew with a higher fence.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use event::{Address, Claim, Fence, Hand, Millis, Moment, Outcome, Shelf};

use super::{Look, May, Sight};
use crate::Lane;

pub(crate) struct Holding {
    owner: String,
    held: BTreeMap<u16, Fence>,
    /// How long the newest claim wanted its lease to last.
    pub(crate) lease: Duration,
    pub(crate) desks: Vec<Desk>,
}

impl Holding {
    pub(crate) fn new(owner: String) -> Holding {
        Holding { owner, held: BTreeMap::new(), lease: Duration::ZERO, desks: Vec::new() }
    }

    /// Returns the fence under which a shard is held.
    pub(crate) fn held(&self, shard: u16) -> Option<Fence> {
        self.held.get(&shard).copied()
    }

    /// Returns the shards that are held.
    pub(crate) fn shards(&self) -> Vec<u16> {
        self.held.keys().copied().collect()
    }

    fn mine(&self, look: &Look) -> bool {
        let held = self.held(look.shard) == Some(look.fence);
        look.owner == self.owner && held && look.until > Millis(0)
    }

    /// Decides what a look at the tables allows.
    pub(crate) fn may(&self, look: &Look, lease: Duration) -> May {
        let (mine, live) = (self.mine(look), look.until > look.now);
        if !mine && live && look.owner != self.owner {
            return May::Nothing;
        }
        let parts = || self.desks.iter().filter_map(|desk| desk.parts.get(&look.shard));
        let overdue = parts().any(|part| part.hand.overdue(look.now));
        if mine && live && !overdue {
            return match (look.ahead || look.is_due(), self.runs_down(look, lease)) {
                (true, _) => May::Keep,
                (false, true) => May::Renew,
                (false, false) => May::Idle,
            };
        }
        if look.hot || look.is_due() || (mine && live) { May::Take } else { May::Idle }
    }

    /// Tells whether the lease is ours and has less than two thirds left.
    pub(crate) fn runs_down(&self, look: &Look, lease: Duration) -> bool {
        let rest = look.until.since(look.now);
        self.mine(look) && rest > Duration::ZERO && rest * 3 < lease * 2
    }

    /// Tells whether the lease was lost to another relay.
    pub(crate) fn lost(&self, look: &Look) -> bool {
        self.held(look.shard).is_some() && !self.mine(look)
    }

    /// Starts under a new fence, with nothing in flight.
    pub(crate) fn take(&mut self, shard: u16, fence: Fence) {
        self.lose(shard);
        self.held.insert(shard, fence);
    }

    /// Drops everything of a shard.
    pub(crate) fn lose(&mut self, shard: u16) {
        self.held.remove(&shard);
        self.desks.iter_mut().for_each(|desk| desk.clear(shard));
    }

    /// Drops everything.
    pub(crate) fn lose_all(&mut self) {
        for shard in self.shards() {
            self.lose(shard);
        }
    }

    /// Tells whether a lane has nothing of a shard in flight, whichever lane but `except` it is.
    pub(crate) fn is_quiet(&self, shard: u16, except: Option<usize>) -> bool {
        let others = self.desks.iter().enumerate().filter(|(at, _)| Some(*at) != except);
        others.filter_map(|(_, desk)| desk.parts.get(&shard)).all(|part| part.hand.is_empty())
    }

    /// Names the hot rows of a shard in flight, less some, by when their claims end.
    pub(crate) fn out(&self, shard: u16, less: &BTreeSet<i64>) -> Vec<(Millis, Vec<i64>)> {
        let mut batches: BTreeMap<Millis, Vec<i64>> = BTreeMap::new();
        let parts = self.desks.iter().filter_map(|desk| desk.parts.get(&shard));
        for (seq, until) in parts.flat_map(|part| &part.hot) {
            if !less.contains(seq) {
                batches.entry(*until).or_default().push(*seq);
            }
        }
        batches.into_iter().collect()
    }
}

/// What a later row in flight had behind it when it was claimed.
struct Kept {
    attempts: u32,
    trail: Vec<Moment>,
}

/// Up to where a lane has looked at the later table, and in vain.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) now: Millis,
    pub(crate) newest: i64,
}

/// One lane's part of everything.
pub(crate) struct Desk {
    pub(crate) lane: Lane,
    pub(crate) seen: Option<Seen>,
    /// The ring that the newest claim has heard.
    pub(crate) heard: u64,
    parts: BTreeMap<u16, Part>,
}

/// One lane's part of one shard.
pub(crate) struct Part {
    pub(crate) hand: Hand,
    /// Whether the hand knows which keys wait for another attempt.
    pub(crate) informed: bool,
    /// What may still appear below the cursor.
    pub(crate) sight: Sight,
    /// Hot rows in flight, and until when.
    hot: BTreeMap<i64, Millis>,
    later: HashMap<i64, Kept>,
}

impl Desk {
    pub(crate) fn new(lane: Lane) -> Desk {
        Desk { lane, seen: None, heard: 0, parts: BTreeMap::new() }
    }

    /// Returns the lane's part of a shard.
    pub(crate) fn part(&mut self, shard: u16) -> &mut Part {
        let order = self.lane.order;
        self.parts.entry(shard).or_insert_with(|| Part {
            hand: Hand::new(order),
            informed: false,
            sight: Sight::default(),
            hot: BTreeMap::new(),
            later: HashMap::new(),
        })
    }

    /// Returns the number after which the lane has not looked at hot rows of a shard.
    pub(crate) fn cursor(&self, shard: u16) -> i64 {
        self.parts.get(&shard).map_or(0, |part| part.hand.cursor())
    }

    /// Returns what may still appear below the cursor of a shard.
    pub(crate) fn sight(&self, shard: u16) -> Option<&Sight> {
        self.parts.get(&shard).map(|part| &part.sight)
    }

    /// Starts a shard again with nothing.
    pub(crate) fn clear(&mut self, shard: u16) {
        self.parts.remove(&shard);
        self.seen = None;
    }

    /// Starts a claim.
    pub(crate) fn open(&mut self) {
        self.parts.values_mut().for_each(|part| part.hand.open());
    }

    /// Remembers a claim that the hand has taken.
    pub(crate) fn keep(&mut self, claim: &Claim, until: Millis, trail: Vec<Moment>) {
        let number = claim.address.number;
        let part = self.part(claim.address.shard);
        match claim.address.shelf {
            Shelf::Hot => {
                part.hot.insert(number, until);
            }
            Shelf::Later => {
                part.later.insert(number, Kept { attempts: claim.attempt, trail });
            }
        }
    }

    /// Returns what a row in flight had behind it; `None` when it is not in flight.
    pub(crate) fn in_flight(&self, address: Address) -> Option<(u32, &[Moment])> {
        let part = self.parts.get(&address.shard)?;
        match address.shelf {
            Shelf::Hot => part.hot.contains_key(&address.number).then_some((1, &[])),
            Shelf::Later => {
                part.later.get(&address.number).map(|kept| (kept.attempts, &kept.trail[..]))
            }
        }
    }

    /// Takes an outcome in.
    pub(crate) fn settle(&mut self, address: Address, outcome: &Outcome) {
        let part = self.part(address.shard);
        match address.shelf {
            Shelf::Hot => {
                part.hot.remove(&address.number);
            }
            Shelf::Later => {
                part.later.remove(&address.number);
            }
        }
        let before = part.hand.cursor();
        part.hand.settle(address, outcome);
        if part.hand.cursor() < before {
            part.sight.went_back();
        }
        self.seen = None;
    }

    pub(crate) fn hot_out(&self, shard: u16) -> BTreeSet<i64> {
        self.parts.get(&shard).map(|part| part.hot.keys().copied().collect()).unwrap_or_default()
    }

    pub(crate) fn later_out(&self, shard: u16) -> Vec<i64> {
        let part = self.parts.get(&shard);
        part.map(|part| part.later.keys().copied().collect()).unwrap_or_default()
    }
}
