//! Order per key: which of the rows that are due may be handed out now.
//!
//! A `Hand` is what one lane holds of one shard that its relay owns. It is memory only: when the
//! relay dies, the next owner starts with an empty one and reads what the tables say.

mod flight;
mod lines;

use std::collections::BTreeSet;

use self::flight::{Flight, Out};
use self::lines::Lines;
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

/// What one lane holds of one shard: rows in flight, keys that wait, how far it has read.
#[derive(Debug, Default)]
pub struct Hand {
    order: Order,
    cursor: i64,
    out: Flight,
    lines: Lines,
    /// The claim under way: its fence, and until when it lasts.
    claim: (Fence, Millis),
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
        if let Some(key) = self.ordered(key) {
            let line = self.lines.enter(key);
            self.lines[line].holders.insert(position(Shelf::Later, birth, number));
        }
    }

    /// Starts a claim. Its fence must be above that of every claim before it.
    pub fn open(&mut self, fence: Fence, until: Millis) {
        debug_assert!(fence > self.claim.0, "{fence:?} after {:?}", self.claim.0);
        self.claim = (fence, until);
    }

    /// Returns the fence of the claim under way.
    pub fn fence(&self) -> Fence {
        self.claim.0
    }

    /// Passes over a hot row that another lane takes.
    pub fn skip(&mut self, number: i64) {
        self.cursor = self.cursor.max(number);
    }

    /// Tells whether a hot row would be taken if it were offered now.
    pub fn takes_hot(&self, address: Address, key: Option<&str>) -> bool {
        let line = self.ordered(key).and_then(|key| self.lines.find(key));
        !self.is_out(address) && line.is_none_or(|line| self.lets_pass(line, address.number))
    }

    /// Tells whether a hot row may be taken beside what its key's line holds: others of it may be
    /// in flight only if this claim took them.
    fn lets_pass(&self, line: usize, number: i64) -> bool {
        let line = &self.lines[line];
        let busy = (line.out > 0 && line.taken != self.claim.0) || !line.holders.is_empty();
        !busy && line.waiting.is_none_or(|first| first >= number)
    }

    /// Offers the next hot row; `true` takes it. Rows must come in order of their numbers.
    pub fn offer_hot(&mut self, address: Address, key: Option<&str>) -> bool {
        let number = address.number;
        self.skip(number);
        if self.is_out(address) {
            return false;
        }
        let line = self.ordered(key).map(|key| self.lines.enter(key));
        if let Some(at) = line.filter(|at| !self.lets_pass(*at, number)) {
            let line = &mut self.lines[at];
            line.waiting = Some(line.waiting.map_or(number, |first| first.min(number)));
            return false;
        }
        self.take(address, line, position(Shelf::Hot, number, 0), false);
        true
    }

    /// Offers a later row that is due; `true` takes it. `birth` is its number when it was hot, or
    /// 0.
    pub fn offer_later(&mut self, address: Address, key: Option<&str>, birth: i64) -> bool {
        if self.is_out(address) {
            return false;
        }
        let position = position(Shelf::Later, birth, address.number);
        let line = self.ordered(key).map(|key| self.lines.enter(key));
        let mut holds = false;
        if let Some(at) = line {
            let line = &mut self.lines[at];
            let first = line.holders.first().is_none_or(|first| position <= *first);
            if !first || (line.out > 0 && line.taken != self.claim.0) {
                return false;
            }
            holds = line.holders.remove(&position);
        }
        self.take(address, line, position, holds);
        true
    }

    fn take(&mut self, address: Address, line: Option<usize>, position: Position, holds: bool) {
        let (fence, until) = self.claim;
        if let Some(at) = line {
            self.lines[at].out += 1;
            self.lines[at].taken = fence;
        }
        self.out.add(Out { address, line, position, holds, fence, until });
    }

    /// Tells whether a row is in flight.
    pub fn is_out(&self, address: Address) -> bool {
        self.out.get(address).is_some()
    }

    /// Tells whether a row is in flight under this fence.
    pub fn has(&self, address: Address, fence: Fence) -> bool {
        self.out.get(address).is_some_and(|out| out.fence == fence)
    }

    /// Takes an outcome in. Returns `false`, and changes nothing, when the row is not in flight
    /// under this fence.
    pub fn settle(&mut self, address: Address, fence: Fence, outcome: &Outcome) -> bool {
        let Some(out) = self.out.take(address, fence) else { return false };
        let back = matches!(outcome, Outcome::Release { .. });
        if back && address.shelf == Shelf::Hot {
            self.cursor = self.cursor.min(address.number - 1);
        }
        let holds = matches!(outcome, Outcome::Retry { .. }) || (back && out.holds);
        self.end(&out, holds);
        true
    }

    /// Lets go of the claims that have outlived their leases, and returns their rows by number. A
    /// hot one has lost its place: it waits in the later table now, and holds its key.
    pub fn lapse(&mut self, now: Millis) -> BTreeSet<Address> {
        let overdue: Vec<(Address, Fence)> =
            self.outlived(now).map(|out| (out.address, out.fence)).collect();
        for (address, fence) in &overdue {
            if let Some(out) = self.out.take(*address, *fence) {
                self.end(&out, true);
            }
        }
        overdue.into_iter().map(|(address, _)| address).collect()
    }

    /// Takes a row out of its key's line; `holds` leaves it there as one that others wait for.
    fn end(&mut self, out: &Out, holds: bool) {
        let Some(at) = out.line else { return };
        let line = &mut self.lines[at];
        line.out -= 1;
        if holds {
            line.holders.insert(out.position);
        }
        if line.out == 0 && line.holders.is_empty() {
            if let Some(first) = line.waiting {
                self.cursor = self.cursor.min(first - 1);
            }
            self.lines.end(at);
        }
    }

    fn outlived(&self, now: Millis) -> impl Iterator<Item = &Out> {
        self.out.iter().filter(move |out| out.until <= now)
    }

    /// Returns the rows in flight, and until when.
    pub fn in_flight(&self) -> impl Iterator<Item = (Address, Millis)> {
        self.out.iter().map(|out| (out.address, out.until))
    }

    /// Returns the numbers of the hot rows in flight, and until when.
    pub fn hot(&self) -> impl Iterator<Item = (i64, Millis)> {
        self.out.hot().map(|out| (out.address.number, out.until))
    }

    /// Tells whether a claim of this hand has outlived its lease.
    pub fn overdue(&self, now: Millis) -> bool {
        self.outlived(now).next().is_some()
    }

    /// Tells whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.out.iter().next().is_none()
    }

    /// Drops everything: the shard was lost, or taken anew.
    pub fn clear(&mut self) {
        *self = Hand::new(self.order);
    }

    /// Returns a key whose order is kept.
    fn ordered<'a>(&self, key: Option<&'a str>) -> Option<&'a str> {
        key.filter(|_| self.order == Order::Hold)
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
