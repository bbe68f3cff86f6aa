//! How much room a claim has left, and which later rows that are due may have it.

use event::{Address, Joins, Row as Rule, Topics, Want};

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
#[derive(Clone)]
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
        let joins = match self.joins(&desk.lane.topics, due) {
            Ok(joins) => joins,
            Err(next) => return next,
        };
        if !desk.part(due.address.shard).hand.offer_later(due.address, due.key, due.birth) {
            return Next::Seen;
        }
        self.take(due, joins)
    }

    /// Looks at one later row as [`weigh`](Room::weigh) does, where no order is kept.
    pub(crate) fn weigh_free(&mut self, topics: &Topics, due: &Due<'_>) -> Next {
        match self.joins(topics, due) {
            Ok(joins) => self.take(due, joins),
            Err(next) => next,
        }
    }

    fn joins(&self, topics: &Topics, due: &Due<'_>) -> Result<Joins, Next> {
        if !topics.take(due.topic) {
            return Err(Next::Passed);
        }
        let joins = Joins::of(due.unexplained >= i64::from(Rule::SUSPECT), self.later);
        let (most, bytes) = self.want.retries();
        let full = self.later == most || (self.later > 0 && self.bytes + due.size > bytes);
        if joins == Joins::NotNow || full { Err(Next::Full) } else { Ok(joins) }
    }

    fn take(&mut self, due: &Due<'_>, joins: Joins) -> Next {
        self.later += 1;
        self.fill(due.size);
        self.closed = joins == Joins::Alone;
        if self.closed { Next::Alone } else { Next::Taken }
    }

    /// Gives back the room of a later row that another relay was quicker to claim.
    pub(crate) fn give_back_later(&mut self, size: usize) {
        self.later -= 1;
        self.bytes -= size;
        self.closed = false;
    }
}
