//! What may still appear below a number that was read: rows of transactions that were open then.
//!
//! A row's number is drawn after its transaction has an id. So a row that a look did not show, but
//! whose number is below one that it did show, belongs to a transaction that the look's snapshot
//! names as open. When a later snapshot shows that transaction ended, the look goes back to where
//! the reading stood before the transaction was first seen. A full look now and then is the net.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long after one full look the next one begins.
const FULL: Duration = Duration::from_secs(30);

/// Which transactions a look has seen: all below `next`, except the open ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    next: u64,
    open: BTreeSet<u64>,
}

impl Snapshot {
    /// Reads PostgreSQL's form, `xmin:xmax:xid,xid`.
    pub(crate) fn parse(text: &str) -> Option<Snapshot> {
        let mut parts = text.split(':').skip(1);
        let next = parts.next()?.parse().ok()?;
        let open = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        Some(Snapshot { next, open: open.map(|xid| xid.parse().ok()).collect::<Option<_>>()? })
    }

    fn ended(&self, xid: u64) -> bool {
        xid < self.next && !self.open.contains(&xid)
    }
}

/// Transactions that were open at a look, and where the reading stood before each was first seen.
#[derive(Debug, Default)]
pub(crate) struct Late(BTreeMap<u64, i64>);

impl Late {
    /// Returns the transactions whose end would show more, and from where on.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.0.iter().map(|(xid, from)| (*xid, *from))
    }

    /// Learns what a look saw before which the reading stood at `before`, and which looked at
    /// everything that those who ended have left.
    pub(crate) fn saw(&mut self, snapshot: &Snapshot, before: i64) {
        self.0.retain(|xid, _| !snapshot.ended(*xid));
        for xid in &snapshot.open {
            self.0.entry(*xid).or_insert(before);
        }
    }

    /// Returns where a look under a snapshot must begin: at `from`, or further back.
    fn began(&self, snapshot: &Snapshot, from: i64) -> i64 {
        let ended = self.0.iter().filter(|(xid, _)| snapshot.ended(**xid));
        ended.map(|(_, before)| *before).min().map_or(from, |before| before.min(from))
    }
}

/// What one lane knows about the hot rows of one shard below its cursor.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) late: Late,
    /// Where the next look begins, if that is below the cursor.
    again: Option<i64>,
    full: Instant,
}

impl Default for Sight {
    fn default() -> Sight {
        Sight { late: Late::default(), again: None, full: Instant::now() }
    }
}

impl Sight {
    /// Returns where a look must begin at the latest, whoever ended meanwhile.
    pub(crate) fn from(&self, cursor: i64) -> i64 {
        if self.full.elapsed() >= FULL {
            return 0;
        }
        self.again.map_or(cursor, |again| again.min(cursor))
    }

    /// Lets the next look begin at a row that another relay had open.
    pub(crate) fn miss(&mut self, number: i64) {
        let before = number - 1;
        self.again = Some(self.again.map_or(before, |again| again.min(before)));
    }

    /// Returns where a look under a snapshot began: where the cursor stood, or further back.
    pub(crate) fn began(&self, snapshot: &Snapshot, from: i64) -> i64 {
        self.late.began(snapshot, from)
    }

    /// Learns what a look saw that began at `from`, with the cursor at `before`. `cut` is the last
    /// row that it showed, when there may have been more.
    pub(crate) fn saw(&mut self, snapshot: &Snapshot, from: i64, before: i64, cut: Option<i64>) {
        self.late.saw(snapshot, before);
        self.looked(from, before, cut);
    }

    /// Learns how far a look came that began at `from`, with the cursor at `before`.
    pub(crate) fn looked(&mut self, from: i64, before: i64, cut: Option<i64>) {
        if from == 0 {
            self.full = Instant::now();
        }
        self.again = cut.filter(|last| *last < before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::parse(text).unwrap()
    }

    #[test]
    fn a_snapshot_names_what_is_open() {
        let one = snapshot("10:20:10,15");
        assert!(one.ended(9) && one.ended(12) && !one.ended(15) && !one.ended(20));
        assert!(snapshot("7:7:").ended(6));
        for bad in ["", "1", "1:x:", "1:2:x"] {
            assert_eq!(Snapshot::parse(bad), None);
        }
    }

    #[test]
    fn the_end_of_a_transaction_takes_the_look_back_to_before_it_was_seen() {
        let mut sight = Sight::default();
        sight.saw(&snapshot("5:10:5"), 0, 0, None);
        sight.saw(&snapshot("5:12:5,11"), 40, 40, None);
        assert_eq!(sight.late.open().collect::<Vec<_>>(), [(5, 0), (11, 40)]);
        assert_eq!(sight.began(&snapshot("5:13:5"), 90), 40);
        assert_eq!(sight.began(&snapshot("13:13:"), 90), 0);
        sight.saw(&snapshot("5:13:5"), 40, 90, None);
        assert_eq!(sight.late.open().collect::<Vec<_>>(), [(5, 0)]);
    }

    #[test]
    fn a_row_that_another_had_open_is_where_the_next_look_begins() {
        let mut sight = Sight::default();
        sight.saw(&snapshot("5:5:"), 10, 90, None);
        sight.miss(70);
        sight.miss(40);
        sight.miss(80);
        assert_eq!(sight.from(90), 39);
        sight.saw(&snapshot("5:5:"), 39, 90, None);
        assert_eq!(sight.from(90), 90);
    }

    #[test]
    fn a_look_that_was_cut_below_the_cursor_goes_on_there() {
        let mut sight = Sight::default();
        sight.saw(&snapshot("5:5:"), 10, 90, Some(50));
        assert_eq!(sight.from(90), 50);
        sight.saw(&snapshot("5:5:"), 50, 90, Some(95));
        assert_eq!(sight.from(90), 90);
    }
}
