//! One lane's part of what a relay holds: in each shard, how far it has read and what it has in
//! flight.

use std::collections::{BTreeSet, HashMap};

use event::{Address, Claim, Fence, Hand, Millis, Moment, Order, Outcome, Shelf, Turns};

use super::Passed;
use super::below::{Below, Lag};
use super::sight::{Late, Mark, Sight};
use crate::Lane;

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
    /// Whose turn it is, where a claim has room for retries only.
    pub(crate) turns: Turns,
    /// Whether the newest claim found that another relay holds what waits.
    pub(crate) stands_by: bool,
    /// How many rows others were quicker to claim, since that was told.
    pub(crate) outrun: u64,
    /// Whether rows stand between this lane's own that it cannot take.
    pub(crate) mixed: bool,
    /// The ring that the newest claim has heard.
    pub(crate) heard: u64,
    /// How many bytes of payload a row had at the last claim, about; the most before there was one.
    pub(crate) weight: usize,
    /// What the newest look told of the numbers of hot rows, where snapshots tell who is open.
    pub(crate) mark: Mark,
    /// The parts by shard.
    parts: Vec<Option<Box<Part>>>,
}

/// One lane's part of one shard.
pub(crate) struct Part {
    pub(crate) hand: Hand,
    /// Whether the hand knows which keys wait for another attempt.
    pub(crate) informed: bool,
    pub(crate) passed: Passed,
    /// What may still appear below the cursor.
    pub(crate) sight: Sight,
    /// What may still appear among the later rows that are not new.
    pub(crate) late: Late,
    /// What may still appear below the cursor, where no snapshot tells it.
    pub(crate) below: Below,
    /// Which later rows are not new, where no snapshot tells it.
    pub(crate) lag: Lag,
    /// The first hot row of a key that was offered and had to wait.
    waiting: hashbrown::HashMap<String, i64>,
    later: HashMap<i64, Kept>,
}

impl Part {
    /// Offers a hot row to a hand whose cursor stood at `before`; `true` takes it. Below that, only
    /// a row that came late is new: one that waits comes again when the line of its key ends.
    pub(crate) fn offer_hot(&mut self, address: Address, key: Option<&str>, before: i64) -> bool {
        let number = address.number;
        let waits = self.waits(number, key);
        if waits && number <= before || self.hand.is_out(address) {
            self.hand.skip(number);
            return false;
        }
        let taken = self.hand.offer_hot(address, key);
        match key {
            Some(key) if taken && waits => drop(self.waiting.remove(key)),
            Some(key) if !taken => {
                let first = self.waiting.entry_ref(key).or_insert(number);
                *first = number.min(*first);
            }
            _ => {}
        }
        taken
    }

    /// Tells whether a row was looked at and waits for the line of its key to end.
    fn waits(&self, number: i64, key: Option<&str>) -> bool {
        key.is_some_and(|key| self.waiting.get(key) == Some(&number))
    }

    /// Tells whether a hot row would be taken if it were offered now.
    pub(crate) fn takes_hot(&self, address: Address, key: Option<&str>, before: i64) -> bool {
        let known = address.number <= before && self.waits(address.number, key);
        !known && self.hand.takes_hot(address, key)
    }

    fn new(order: Order) -> Part {
        Part {
            hand: Hand::new(order),
            informed: false,
            passed: Passed::default(),
            sight: Sight::default(),
            late: Late::default(),
            below: Below::default(),
            lag: Lag::default(),
            waiting: hashbrown::HashMap::new(),
            later: HashMap::new(),
        }
    }
}

impl Desk {
    pub(crate) fn new(lane: Lane) -> Desk {
        Desk {
            lane,
            seen: None,
            turns: Turns::default(),
            stands_by: false,
            outrun: 0,
            mixed: false,
            heard: 0,
            weight: usize::MAX,
            mark: Mark::default(),
            parts: Vec::new(),
        }
    }

    /// Returns the lane's part of a shard.
    pub(crate) fn part(&mut self, shard: u16) -> &mut Part {
        let at = usize::from(shard);
        if self.parts.len() <= at {
            self.parts.resize_with(at + 1, || None);
        }
        self.parts[at].get_or_insert_with(|| Box::new(Part::new(self.lane.order)))
    }

    /// Returns the lane's part of a shard, if it ever looked there.
    pub(crate) fn known(&self, shard: u16) -> Option<&Part> {
        self.parts.get(usize::from(shard))?.as_deref()
    }

    /// Returns the number after which the lane has not looked at hot rows of a shard.
    pub(crate) fn cursor(&self, shard: u16) -> i64 {
        self.known(shard).map_or(0, |part| part.hand.cursor())
    }

    /// Starts a shard again with nothing.
    pub(crate) fn clear(&mut self, shard: u16) {
        if let Some(part) = self.parts.get_mut(usize::from(shard)) {
            *part = None;
        }
        self.seen = None;
    }

    /// Starts every shard again with nothing.
    pub(crate) fn forget(&mut self) {
        self.parts.clear();
        self.seen = None;
        self.mark = Mark::default();
    }

    /// Tells whether a claim has outlived its lease.
    pub(crate) fn overdue(&self, shard: u16, now: Millis) -> bool {
        self.known(shard).is_some_and(|part| part.hand.overdue(now))
    }

    /// Tells whether nothing of a shard is in flight.
    pub(crate) fn is_quiet(&self, shard: u16) -> bool {
        self.known(shard).is_none_or(|part| part.hand.is_empty())
    }

    /// Remembers what a later row had behind it that the hand has taken.
    pub(crate) fn keep(&mut self, claim: &Claim, trail: Vec<Moment>) {
        let kept = Kept { attempts: claim.attempt, trail };
        self.part(claim.address.shard).later.insert(claim.address.number, kept);
    }

    /// Returns the rows of a shard whose claims have outlived their leases.
    pub(crate) fn outlived(&self, shard: u16, now: Millis) -> Vec<Address> {
        let out = self.known(shard).into_iter().flat_map(|part| part.hand.in_flight());
        out.filter(|(_, until)| *until <= now).map(|(address, _)| address).collect()
    }

    /// Lets go of the claims that have outlived their leases. Returns their hot rows; later rows
    /// are due by their own time.
    pub(crate) fn lapse(&mut self, shard: u16, now: Millis) -> Vec<(i64, Millis)> {
        let part = self.part(shard);
        let hot = part.hand.hot().filter(|(_, until)| *until <= now).collect();
        let lapsed = part.hand.lapse(now);
        for Address { number, .. } in lapsed.iter().filter(|row| row.shelf == Shelf::Later) {
            part.later.remove(number);
        }
        if !lapsed.is_empty() {
            self.seen = None;
        }
        hot
    }

    /// Returns what a row had behind it that is in flight under this fence.
    pub(crate) fn in_flight(&self, address: Address, fence: Fence) -> Option<(u32, &[Moment])> {
        let part = self.known(address.shard)?;
        if !part.hand.has(address, fence) {
            return None;
        }
        match address.shelf {
            Shelf::Hot => Some((1, &[])),
            Shelf::Later => {
                part.later.get(&address.number).map(|kept| (kept.attempts, &kept.trail[..]))
            }
        }
    }

    /// Takes an outcome in. The row is not due before `now`, whatever becomes of it.
    pub(crate) fn settle(
        &mut self,
        address: Address,
        fence: Fence,
        outcome: &Outcome,
        now: Millis,
    ) {
        let part = self.part(address.shard);
        if address.shelf == Shelf::Later {
            part.later.remove(&address.number);
        }
        part.hand.settle(address, fence, outcome);
        part.passed.spoil(now);
        self.seen = None;
    }

    /// Returns the hot rows of a shard in flight, and until when.
    pub(crate) fn hot(&self, shard: u16) -> impl Iterator<Item = (i64, Millis)> + '_ {
        self.known(shard).into_iter().flat_map(|part| part.hand.hot())
    }

    pub(crate) fn hot_out(&self, shard: u16) -> BTreeSet<i64> {
        self.hot(shard).map(|(seq, _)| seq).collect()
    }

    pub(crate) fn later_out(&self, shard: u16) -> impl Iterator<Item = i64> + '_ {
        self.known(shard).into_iter().flat_map(|part| part.later.keys().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(number: i64) -> Address {
        Address { shelf: Shelf::Hot, shard: 0, number }
    }

    #[test]
    fn a_row_in_flight_behind_a_released_one_is_passed() {
        let mut part = Part::new(Order::Hold);
        part.hand.open(Fence(1), Millis(1));
        assert!(part.offer_hot(hot(4), None, 0) && part.offer_hot(hot(5), None, 0));
        let release = Outcome::Release { after: std::time::Duration::ZERO };
        assert!(part.hand.settle(hot(4), Fence(1), &release));
        part.hand.open(Fence(2), Millis(1));
        assert!(part.offer_hot(hot(4), None, 3) && !part.offer_hot(hot(5), None, 3));
        assert_eq!(part.hand.cursor(), 5, "nothing is ahead");
    }

    #[test]
    fn a_look_back_finds_what_came_late_and_not_what_waits() {
        let mut part = Part::new(Order::Hold);
        part.hand.hold(Some("k"), 1, 1);
        part.hand.open(Fence(1), Millis(1));
        assert!(!part.offer_hot(hot(4), Some("k"), 0), "an earlier one holds its key");
        assert!(part.offer_hot(hot(5), Some("l"), 0));
        part.hand.open(Fence(2), Millis(1));
        let first = Address { shelf: Shelf::Later, shard: 0, number: 1 };
        assert!(part.hand.offer_later(first, Some("k"), 1));
        assert!(!part.takes_hot(hot(4), Some("k"), 5) && part.takes_hot(hot(3), Some("k"), 5));
        assert!(!part.offer_hot(hot(4), Some("k"), 5), "it waits for the line to end");
        assert!(part.offer_hot(hot(3), Some("k"), 5), "it came late, and before the other");
        assert!(part.offer_hot(hot(6), None, 5));
    }
}
