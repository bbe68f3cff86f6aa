//! Order per key: which of the rows that are due may be handed out now.
//!
//! A `Hand` is what one lane holds of one shard that its relay owns. It is memory only: when the
//! relay dies, the next owner starts with an empty one and reads what the tables say.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{Address, Millis, Outcome, Row, Shelf};

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
    /// Whether it waited for another attempt when it was taken.
    parked: bool,
    until: Millis,
}

#[derive(Debug, Default)]
struct Line {
    /// Rows of the key in flight.
    out: usize,
    /// Rows of the key that wait for another attempt.
    parked: BTreeSet<Position>,
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
    pub fn park(&mut self, key: Option<&str>, birth: i64, number: i64) {
        if let (Order::Hold, Some(key)) = (self.order, key) {
            self.line(key).parked.insert(position(Shelf::Later, birth, number));
        }
    }

    /// Starts a claim.
    pub fn open(&mut self) {
        self.fresh.clear();
    }

    /// Passes over a hot row that another lane takes.
    pub fn skip(&mut self, number: i64) {
        self.cursor = self.cursor.max(number);
    }

    /// Offers the next hot row; `true` takes it. Rows must come in order of their numbers.
    pub fn offer_hot(&mut self, address: Address, key: Option<&str>, until: Millis) -> bool {
        self.skip(address.number);
        if self.out.contains_key(&address) {
            return false;
        }
        if let (Order::Hold, Some(key)) = (self.order, key) {
            let fresh = self.fresh.contains(key);
            let line = self.line(key);
            let busy = (line.out > 0 && !fresh) || !line.parked.is_empty();
            if busy || line.waiting.is_some_and(|first| first < address.number) {
                let first = line.waiting.unwrap_or(address.number);
                line.waiting = Some(first.min(address.number));
                return false;
            }
        }
        let position = position(Shelf::Hot, address.number, 0);
        self.take(address, key, Out { key: None, position, parked: false, until });
        true
    }

    /// Offers a later row that is due; `true` takes it. `birth` is its number when it was hot, or
    /// 0.
    pub fn offer_later(
        &mut self,
        address: Address,
        key: Option<&str>,
        birth: i64,
        until: Millis,
    ) -> bool {
        if self.out.contains_key(&address) {
            return false;
        }
        let position = position(Shelf::Later, birth, address.number);
        let mut parked = false;
        if let (Order::Hold, Some(key)) = (self.order, key) {
            let fresh = self.fresh.contains(key);
            let line = self.line(key);
            let first = line.parked.first().is_none_or(|first| position <= *first);
            if !first || (line.out > 0 && !fresh) {
                return false;
            }
            parked = line.parked.remove(&position);
        }
        self.take(address, key, Out { key: None, position, parked, until });
        true
    }

    fn take(&mut self, address: Address, key: Option<&str>, mut out: Out) {
        out.key = key.map(str::to_owned);
        if let (Order::Hold, Some(key)) = (self.order, key) {
            self.line(key).out += 1;
            self.fresh.insert(key.to_owned());
        }
        self.out.insert(address, out);
    }

    /// Tells whether a row is in flight from this hand.
    pub fn has(&self, address: Address) -> bool {
        self.out.contains_key(&address)
    }

    /// Takes an outcome in. Returns `false` when the row is not in this hand.
    pub fn settle(&mut self, address: Address, outcome: &Outcome) -> bool {
        let Some(out) = self.out.remove(&address) else { return false };
        let back = matches!(outcome, Outcome::Release { .. });
        if back && address.shelf == Shelf::Hot {
            self.cursor = self.cursor.min(address.number - 1);
        }
        let (Order::Hold, Some(key)) = (self.order, &out.key) else { return true };
        let parks = matches!(outcome, Outcome::Retry { .. }) || (back && out.parked);
        let line = self.lines.get_mut(key).expect("a row in flight has its key's line");
        line.out -= 1;
        if parks {
            line.parked.insert(out.position);
        }
        if line.out == 0 && line.parked.is_empty() {
            if let Some(first) = line.waiting {
                self.cursor = self.cursor.min(first - 1);
            }
            self.lines.remove(key);
        }
        true
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

/// Tells whether a row may join a claim that has taken some already, and if so, whether it must be
/// the only one: a suspect goes alone, because it may be what killed a relay.
pub fn alone(suspect: bool, taken: usize) -> Option<bool> {
    match (suspect, taken) {
        (false, _) => Some(false),
        (true, 0) => Some(true),
        (true, _) => None,
    }
}

impl Row {
    /// Tells whether the row waits for another attempt, and so holds its key's followers.
    pub fn is_parked(&self) -> bool {
        matches!(self.place, crate::Place::Waiting(Shelf::Later)) && self.attempt > 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Cause, Code};

    const UNTIL: Millis = Millis(1000);

    fn hot(number: i64) -> Address {
        Address { shelf: Shelf::Hot, shard: 0, number }
    }

    #[test]
    fn a_released_row_behind_a_failing_one_is_looked_at_again() {
        let mut hand = Hand::new(Order::Hold);
        hand.open();
        assert!(hand.offer_hot(hot(10), Some("k"), UNTIL));
        assert!(hand.offer_hot(hot(11), Some("k"), UNTIL));
        hand.open();
        assert!(!hand.offer_hot(hot(12), Some("k"), UNTIL), "its key is in flight");

        let cause = Cause::new(Code::SinkBusy, "503");
        hand.settle(hot(10), &Outcome::Retry { after: Duration::ZERO, cause });
        hand.settle(hot(11), &Outcome::Release { after: Duration::ZERO });
        hand.open();
        assert!(!hand.offer_hot(hot(11), Some("k"), UNTIL), "its key waits for another attempt");

        let later = Address { shelf: Shelf::Later, shard: 0, number: 1 };
        assert!(hand.offer_later(later, Some("k"), 10, UNTIL));
        hand.settle(later, &Outcome::Release { after: Duration::ZERO });
        assert!(hand.offer_later(later, Some("k"), 10, UNTIL));
        hand.settle(later, &Outcome::Dead(Cause::new(Code::SinkRefused, "422")));
        assert_eq!(hand.cursor(), 10, "11 comes next, and 12 after it");
    }
}
