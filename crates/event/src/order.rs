//! Order per key: which of the rows that are due may be handed out now.
//!
//! A `Hand` is what one lane holds of one shard that its relay owns. It is memory only: when the
//! relay dies, the next owner starts with an empty one and reads what the tables say.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{Address, Fence, Millis, Outcome, Row, Shelf};

/// What the followers of a failing event do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// They wait until it is published or dead. Other keys go on.
    #[default]
    Hold,
    /// They pass it. Nothing is promised about order.
    Pass,
}

/// A row's place in the line of its key: by birth. Rows that were born delayed (0) go by number.
type Position = (i64, i64);

#[derive(Debug)]
struct Out {
    key: Option<String>,
    position: Position,
    /// Whether it held its key's followers when it was taken.
    holds: bool,
    fence: Fence,
    until: Millis,
}

#[derive(Debug, Default)]
struct Line {
    /// Rows of the key in flight.
    out: usize,
    /// Rows of the key that wait for another attempt, and hold its followers.
    holders: BTreeSet<Position>,
    /// The first hot row of the key that was passed over because of those.
    waiting: Option<i64>,
}

/// What one lane holds of one shard: rows in flight, keys that wait, how far it has read.
#[derive(Debug, Default)]
pub struct Hand {
    order: Order,
    cursor: i64,
    out: BTreeMap<Address, Out>,
    lines: HashMap<String, Line>,
    /// The claim under way: its fence, and until when it lasts.
    claim: (Fence, Millis),
    /// Keys that the claim under way has taken rows of: more of them may follow in line.
    fresh: HashSet<String>,
}

impl Hand {
    /// Starts with nothing.
    pub fn new(order: Order) -> Hand {
        Hand { order, ..Hand::default() }
    }

    /// Returns the number after which hot rows have not been looked at.
    pub fn cursor(&self) -> i64 {
        self.cursor
    }

    /// Remembers a row that waits for another attempt, as the tables say at a take-over.
    pub fn hold(&mut self, key: Option<&str>, birth: i64, number: i64) {
        if let (Order::Hold, Some(key)) = (self.order, key) {
            self.line(key).holders.insert(position(Shelf::Later, birth, number));
        }
    }

    /// Starts a claim. Its fence must be above that of every claim before it.
    pub fn open(&mut self, fence: Fence, until: Millis) {
        debug_assert!(fence > self.claim.0, "{fence:?} after {:?}", self.claim.0);
        self.claim = (fence, until);
        self.fresh.clear();
    }

    /// Passes over a hot row that another lane takes.
    pub fn skip(&mut self, number: i64) {
        self.cursor = self.cursor.max(number);
    }

    /// Tells whether a hot row would be taken if it were offered now.
    pub fn takes_hot(&self, address: Address, key: Option<&str>) -> bool {
        if self.out.contains_key(&address) {
            return false;
        }
        let (Order::Hold, Some(key)) = (self.order, key) else { return true };
        let Some(line) = self.lines.get(key) else { return true };
        let busy = (line.out > 0 && !self.fresh.contains(key)) || !line.holders.is_empty();
        !busy && line.waiting.is_none_or(|first| first >= address.number)
    }

    /// Offers the next hot row; `true` takes it. Rows must come in order of their numbers.
    pub fn offer_hot(&mut self, address: Address, key: Option<&str>) -> bool {
        self.skip(address.number);
        if self.takes_hot(address, key) {
            self.take(address, key, position(Shelf::Hot, address.number, 0), false);
            return true;
        }
        if let Some(key) = key.filter(|_| !self.out.contains_key(&address)) {
            let line = self.line(key);
            let first = line.waiting.unwrap_or(address.number);
            line.waiting = Some(first.min(address.number));
        }
        false
    }

    /// Offers a later row that is due; `true` takes it. `birth` is its number when it was hot, or
    /// 0.
    pub fn offer_later(&mut self, address: Address, key: Option<&str>, birth: i64) -> bool {
        if self.out.contains_key(&address) {
            return false;
        }
        let position = position(Shelf::Later, birth, address.number);
        let mut holds = false;
        if let (Order::Hold, Some(key)) = (self.order, key) {
            let fresh = self.fresh.contains(key);
            let line = self.line(key);
            let first = line.holders.first().is_none_or(|first| position <= *first);
            if !first || (line.out > 0 && !fresh) {
                return false;
            }
            holds = line.holders.remove(&position);
        }
        self.take(address, key, position, holds);
        true
    }

    fn take(&mut self, address: Address, key: Option<&str>, position: Position, holds: bool) {
        if let (Order::Hold, Some(key)) = (self.order, key) {
            self.line(key).out += 1;
            self.fresh.insert(key.to_owned());
        }
        let ((fence, until), key) = (self.claim, key.map(str::to_owned));
        self.out.insert(address, Out { key, position, holds, fence, until });
    }

    /// Tells whether a row is in flight under this fence.
    pub fn has(&self, address: Address, fence: Fence) -> bool {
        self.out.get(&address).is_some_and(|out| out.fence == fence)
    }

    /// Takes an outcome in. Returns `false`, and changes nothing, when the row is not in flight
    /// under this fence.
    pub fn settle(&mut self, address: Address, fence: Fence, outcome: &Outcome) -> bool {
        if !self.has(address, fence) {
            return false;
        }
        let out = self.out.remove(&address).expect("the hand has it");
        let back = matches!(outcome, Outcome::Release { .. });
        if back && address.shelf == Shelf::Hot {
            self.cursor = self.cursor.min(address.number - 1);
        }
        let holds = matches!(outcome, Outcome::Retry { .. }) || (back && out.holds);
        self.end(out, holds);
        true
    }

    /// Lets go of the claims that have outlived their leases, and returns their rows by number. A
    /// hot one has lost its place: it waits in the later table now, and holds its key.
    pub fn lapse(&mut self, now: Millis) -> BTreeSet<Address> {
        let overdue = self.out.iter().filter(|(_, out)| out.until <= now);
        let overdue: BTreeSet<Address> = overdue.map(|(address, _)| *address).collect();
        for address in &overdue {
            if let Some(out) = self.out.remove(address) {
                self.end(out, true);
            }
        }
        overdue
    }

    /// Takes a row out of its key's line; `holds` leaves it there as one that others wait for.
    fn end(&mut self, out: Out, holds: bool) {
        let (Order::Hold, Some(key)) = (self.order, &out.key) else { return };
        let line = self.lines.get_mut(key).expect("a row in flight has its key's line");
        line.out -= 1;
        if holds {
            line.holders.insert(out.position);
        }
        if line.out == 0 && line.holders.is_empty() {
            if let Some(first) = line.waiting {
                self.cursor = self.cursor.min(first - 1);
            }
            self.lines.remove(key);
        }
    }

    /// Returns the rows in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = Address> + '_ {
        self.out.keys().copied()
    }

    /// Tells whether a claim of this hand has outlived its lease.
    pub fn overdue(&self, now: Millis) -> bool {
        self.out.values().any(|out| out.until <= now)
    }

    /// Tells whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Drops everything: the shard was lost, or taken anew.
    pub fn clear(&mut self) {
        *self = Hand::new(self.order);
    }

    fn line(&mut self, key: &str) -> &mut Line {
        self.lines.entry(key.to_owned()).or_default()
    }
}

fn position(shelf: Shelf, birth: i64, number: i64) -> Position {
    match (shelf, birth) {
        (Shelf::Later, 0) => (0, number),
        _ => (birth, 0),
    }
}

/// Whose turn it is in a lane, where a claim has room for retries only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    owes_hot: bool,
}

impl Turns {
    /// Tells whether a claim looks at hot rows first, and at retries only if it finds none.
    pub fn begin_hot(&self) -> bool {
        self.owes_hot
    }

    /// Ends a claim that took so many retries and hot rows. One that had room for retries only (it
    /// is for a single row, or the retry is large, or a suspect) gives the next turn to hot rows.
    pub fn close(&mut self, retries: usize, hot: usize) {
        self.owes_hot = retries > 0 && hot == 0;
    }
}

/// How a row may join a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// Beside others.
    Beside,
    /// As the only one: it is a suspect, and may be what killed a relay.
    Alone,
    /// Not this time: it must be the only one, and the claim has others.
    NotNow,
}

impl Joins {
    /// Says how a row joins a claim that has taken some already.
    pub fn of(suspect: bool, taken: usize) -> Joins {
        match (suspect, taken) {
            (false, _) => Joins::Beside,
            (true, 0) => Joins::Alone,
            (true, _) => Joins::NotNow,
        }
    }
}

impl Row {
    /// Tells whether the row waits for another attempt, and so holds its key's followers.
    pub fn holds_key(&self) -> bool {
        matches!(self.place, crate::Place::Waiting(Shelf::Later)) && self.attempt > 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Cause, Code};

    fn hot(number: i64) -> Address {
        Address { shelf: Shelf::Hot, shard: 0, number }
    }

    fn later(number: i64) -> Address {
        Address { shelf: Shelf::Later, shard: 0, number }
    }

    /// Starts a claim that lasts until its fence.
    fn open(hand: &mut Hand, fence: i64) -> Fence {
        hand.open(Fence(fence), Millis(fence));
        Fence(fence)
    }

    fn retry() -> Outcome {
        let cause = Cause::new(Code::SinkBusy, "503");
        Outcome::Retry { after: Duration::ZERO, cause }
    }

    const RELEASE: Outcome = Outcome::Release { after: Duration::ZERO };

    #[test]
    fn a_released_row_behind_a_failing_one_is_looked_at_again() {
        let mut hand = Hand::new(Order::Hold);
        let first = open(&mut hand, 1);
        assert!(hand.offer_hot(hot(10), Some("k")) && hand.offer_hot(hot(11), Some("k")));
        open(&mut hand, 2);
        assert!(!hand.offer_hot(hot(12), Some("k")), "its key is in flight");

        assert!(hand.settle(hot(10), first, &retry()));
        assert!(hand.settle(hot(11), first, &RELEASE));
        open(&mut hand, 3);
        assert!(!hand.offer_hot(hot(11), Some("k")), "its key waits for another attempt");

        let fourth = open(&mut hand, 4);
        assert!(hand.offer_later(later(1), Some("k"), 10));
        assert!(hand.settle(later(1), fourth, &RELEASE));
        let fifth = open(&mut hand, 5);
        assert!(hand.offer_later(later(1), Some("k"), 10));
        assert!(hand.settle(later(1), fifth, &Outcome::Dead(Cause::new(Code::SinkRefused, "422"))));
        assert_eq!(hand.cursor(), 10, "11 comes next, and 12 after it");
    }

    #[test]
    fn a_claim_that_overstays_lapses_and_spares_the_others() {
        let mut hand = Hand::new(Order::Hold);
        let slow = open(&mut hand, 1);
        assert!(hand.offer_hot(hot(10), Some("k")));
        let quick = open(&mut hand, 2);
        assert!(hand.offer_hot(hot(11), Some("l")));

        assert_eq!(hand.lapse(Millis(1)), BTreeSet::from([hot(10)]));
        assert!(!hand.settle(hot(10), slow, &RELEASE), "it has lapsed");
        open(&mut hand, 3);
        assert!(!hand.offer_hot(hot(12), Some("k")), "the lapsed one comes first");
        assert!(hand.offer_later(later(1), Some("k"), 10));
        assert!(hand.settle(hot(11), quick, &RELEASE), "it had time");
    }

    #[test]
    fn an_earlier_claim_cannot_settle_a_row_that_was_claimed_again() {
        let mut hand = Hand::new(Order::Pass);
        let first = open(&mut hand, 1);
        assert!(hand.offer_later(later(1), None, 0));
        hand.lapse(Millis(1));
        let second = open(&mut hand, 2);
        assert!(hand.offer_later(later(1), None, 0));
        assert!(!hand.settle(later(1), first, &RELEASE));
        assert!(hand.settle(later(1), second, &RELEASE));
    }
}
