//! How much room a claim has left, and which later rows that are due may have it.

use event::{Address, Joins, Row as Rule, Want};

use super::Desk;

/// A later row that is due, as a claim weighs it.
pub(crate) struct Due<'a> {
    pub(crate) address: Address,
    /// Its number when it was hot, or 0.
    pub(crate) birth: i64,
    pub(crate) topic: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) unexplained: i64,
    pub(crate) size: usize,
}

/// What a row says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is another lane's.
    Passed,
    /// It is this lane's, and has to wait: look on.
    Seen,
    /// It was taken: look on.
    Taken,
    /// It was taken, and nothing may be taken beside it.
    Alone,
    /// The claim has no room for it.
    Full,
}

/// What a claim may still take.
pub(crate) struct Room {
    pub(crate) want: Want,
    bytes: usize,
    later: usize,
    /// Whether nothing more may be taken: a suspect goes alone.
    pub(crate) closed: bool,
}

impl Room {
    pub(crate) fn new(want: Want) -> Room {
        Room { want, bytes: 0, later: 0, closed: false }
    }

    /// Tells whether a payload fits beside the rows that were taken.
    pub(crate) fn fits(&self, size: usize, taken: usize) -> bool {
        taken == 0 || self.bytes + size <= self.want.bytes
    }

    /// Takes a payload's bytes.
    pub(crate) fn fill(&mut self, size: usize) {
        self.bytes += size;
    }

    /// Looks at one later row, and takes it if it may. Rows must come in the order of their due
    /// times.
    pub(crate) fn weigh(&mut self, desk: &mut Desk, due: &Due<'_>) -> Next {
        if !desk.lane.topics.take(due.topic) {
            return Next::Passed;
        }
        let joins = Joins::of(due.unexplained >= i64::from(Rule::SUSPECT), self.later);
        let (most, bytes) = self.want.retries();
        let full = self.later == most || (self.later > 0 && self.bytes + due.size > bytes);
        if joins == Joins::NotNow || full {
            return Next::Full;
        }
        if !desk.part(due.address.shard).hand.offer_later(due.address, due.key, due.birth) {
            return Next::Seen;
        }
        self.later += 1;
        self.fill(due.size);
        self.closed = joins == Joins::Alone;
        if self.closed { Next::Alone } else { Next::Taken }
    }
}
