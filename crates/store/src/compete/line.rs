//! The line of a shard: whoever has it open hands its hot rows out, and names them there.
//!
//! A line is open for the length of one short transaction. What it names is in flight; what it does
//! not name is nobody's, whatever somebody remembers.

use std::collections::HashSet;
use std::time::Duration;

use event::{Fence, Leased, Millis};

/// A hot row in flight: until when, and in which claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) seq: i64,
    pub(crate) until: Millis,
    pub(crate) fence: Fence,
}

/// A shard's line, open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) shard: u16,
    /// The newest claim's fence.
    pub(crate) fence: Fence,
    /// The clock at the moment.
    pub(crate) now: Millis,
    /// The rows in flight, in the order in which their claims end.
    pub(crate) out: Vec<Named>,
}

impl Line {
    /// Takes the rows out of flight whose time is over, or seems to be longer than any is because a
    /// clock was ahead. Returns them.
    pub(crate) fn lapse(&mut self, lease: Duration) -> Vec<i64> {
        let now = self.now;
        let over = |named: &mut Named| !Leased::Shard.runs(named.until, now, lease);
        self.out.extract_if(.., over).map(|named| named.seq).collect()
    }

    /// Returns the fence of the next claim. A claim may be lost in a crash of the server, and with
    /// it a fence that somebody holds: a fence that is also a time is not drawn again.
    pub(crate) fn next(&self) -> Fence {
        self.fence.next().max(Fence(self.now.0))
    }

    /// Puts rows in flight, under the next fence.
    pub(crate) fn name(&mut self, seqs: Vec<i64>, until: Millis) {
        if !seqs.is_empty() {
            self.fence = self.next();
            let fence = self.fence;
            self.out.extend(seqs.into_iter().map(|seq| Named { seq, until, fence }));
            self.out.sort_by_key(|named| named.until);
        }
    }

    /// Takes rows out of flight, each in its claim. Returns which were.
    pub(crate) fn unname(&mut self, rows: &HashSet<(i64, Fence)>) -> Vec<i64> {
        let ends = |named: &mut Named| rows.contains(&(named.seq, named.fence));
        self.out.extract_if(.., ends).map(|named| named.seq).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn line() -> Line {
        Line { shard: 0, fence: Fence(7), now: Millis(5), out: Vec::new() }
    }

    #[test]
    fn a_fence_grows_whatever_the_clock_says() {
        assert_eq!(line().next(), Fence(8));
        assert_eq!(Line { now: Millis(90), ..line() }.next(), Fence(90));
    }

    #[test]
    fn only_the_claim_that_named_a_row_takes_it_out_of_flight() {
        let mut line = line();
        line.name(vec![1, 2], Millis(20));
        line.name(vec![3], Millis(10));
        line.name(Vec::new(), Millis(1));
        let order: Vec<i64> = line.out.iter().map(|named| named.seq).collect();
        assert_eq!((order, line.fence), (vec![3, 1, 2], Fence(9)));
        let ends = HashSet::from([(1, Fence(9)), (2, Fence(8)), (4, Fence(8))]);
        assert_eq!(line.unname(&ends), [2]);
        assert_eq!((line.fence, line.out.len()), (Fence(9), 2));
    }

    #[test]
    fn what_is_over_lapses_and_so_does_what_lasts_longer_than_anything_can() {
        let mut line = line();
        line.name(vec![1], Millis(5));
        line.name(vec![2], Millis(6));
        line.name(vec![3], Millis(100_000_000));
        assert_eq!(line.lapse(LEASE), [1, 3]);
        assert_eq!(line.out.len(), 1);
    }
}
