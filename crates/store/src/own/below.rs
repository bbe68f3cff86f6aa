//! What may still appear below a number that was read, where no snapshot tells who was open then.
//!
//! A number is drawn when its row is about to be inserted. So a while after the cursor has stood
//! somewhere, every row up to there that will ever appear is in the table, committed or not, and a
//! read of uncommitted rows shows it. Those that were not looked at are pending from then on; above
//! them, every look reads the numbers again. A row whose insertion took longer than that while is
//! found by the full look.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Passed;

/// How long a row may take to appear in its table, uncommitted, after its number was drawn.
const WHILE: Duration = Duration::from_secs(2);

/// How soon and how late what was passed is forgotten: the sooner, the fewer rows are read again
/// for it. So 16 shards with up to 60,000 such rows each read 3,200 rows a second again at the
/// most.
const FORGET: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));

/// How long it is remembered for each row.
const EACH: Duration = Duration::from_millis(5);

/// How many stretches pending rows are looked for in, at the most.
const STRETCHES: usize = 16;

/// A number as it was at a moment.
type Mark = Option<(Instant, i64)>;

/// What one lane knows about the hot rows of one shard below its cursor.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// Up to here no row appears that is not pending.
    floor: i64,
    /// Rows above the floor that were looked at.
    seen: BTreeSet<i64>,
    /// Rows up to the floor that are in the table and were not looked at.
    pending: BTreeSet<i64>,
    mark: Mark,
}

impl Below {
    /// Returns between which numbers rows may have appeared: above the first, up to the second.
    pub(crate) fn window(&self, cursor: i64) -> Option<(i64, i64)> {
        (self.floor < cursor).then_some((self.floor, cursor))
    }

    /// Returns the rows below that which are in the table and were not looked at.
    pub(crate) fn pending(&self) -> impl Iterator<Item = i64> + '_ {
        self.pending.iter().copied()
    }

    /// Returns the rows above the floor that were looked at.
    pub(crate) fn seen(&self) -> impl Iterator<Item = i64> + '_ {
        self.seen.iter().copied()
    }

    /// Counts those of them in a window. A cursor that goes back leaves others beyond it.
    pub(crate) fn seen_in(&self, (low, high): (i64, i64)) -> usize {
        let within = |seq: Option<&i64>| seq.is_none_or(|seq| (low + 1..=high).contains(seq));
        match within(self.seen.first()) && within(self.seen.last()) {
            true => self.seen.len(),
            false => self.seen.range(low + 1..=high).count(),
        }
    }

    /// Returns which of the rows up to the cursor that are there were not looked at.
    pub(crate) fn unseen(&self, there: &[i64], cursor: i64) -> Vec<i64> {
        let unseen = |seq: &&i64| match **seq > self.floor {
            true => **seq <= cursor && !self.seen.contains(*seq),
            false => self.pending.contains(*seq),
        };
        there.iter().filter(unseen).copied().collect()
    }

    /// Learns that a row was looked at.
    pub(crate) fn passed(&mut self, seq: i64) {
        if seq > self.floor {
            self.seen.insert(seq);
        } else {
            self.pending.remove(&seq);
        }
    }

    /// Returns up to which number a read of uncommitted rows would show whatever may appear, when
    /// it is time for one.
    pub(crate) fn ripe(&mut self, cursor: i64) -> Option<i64> {
        let (at, number) = *self.mark.get_or_insert_with(|| (Instant::now(), cursor));
        if at.elapsed() < WHILE {
            return None;
        }
        if number <= self.floor && self.pending.is_empty() {
            self.mark = Some((Instant::now(), cursor));
            return None;
        }
        Some(number.max(self.floor))
    }

    /// Learns which rows are in the table, committed or not, up to a number and in every stretch.
    pub(crate) fn peeked(&mut self, to: i64, there: &[i64], cursor: i64) {
        let there: BTreeSet<i64> = there.iter().copied().collect();
        self.pending.retain(|seq| there.contains(seq));
        let risen = there.into_iter().filter(|seq| *seq > self.floor && *seq <= to);
        self.pending.extend(risen.filter(|seq| !self.seen.contains(seq)));
        self.floor = self.floor.max(to);
        self.seen = self.seen.split_off(&(self.floor + 1));
        self.mark = Some((Instant::now(), cursor));
    }
}

/// Puts numbers together that lie near each other, in so few stretches as are looked at.
pub(crate) fn runs(numbers: &BTreeSet<i64>) -> Vec<(i64, i64)> {
    let mut gap = 1;
    loop {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((_, last)) if *number - *last <= gap => *last = *number,
                _ => runs.push((*number - 1, *number)),
            }
        }
        if runs.len() <= STRETCHES {
            return runs;
        }
        gap *= 4;
    }
}

/// How a lane follows the newest number of the later table: at a distance, so that rows which were
/// committed a little late still count as new. Now and then it forgets what it has passed.
#[derive(Debug)]
pub(crate) struct Lag {
    mark: Mark,
    full: Instant,
}

impl Default for Lag {
    fn default() -> Lag {
        Lag { mark: None, full: Instant::now() }
    }
}

impl Lag {
    /// Returns what was passed as of a look that saw `newest` rows.
    pub(crate) fn follow(&mut self, newest: i64, mut passed: Passed) -> Passed {
        if self.full.elapsed() >= lasts(passed.rows) {
            *self = Lag::default();
            return Passed::default();
        }
        let (at, number) = *self.mark.get_or_insert_with(|| (Instant::now(), newest));
        if at.elapsed() >= WHILE {
            passed.newest = passed.newest.max(number);
            self.mark = Some((Instant::now(), newest));
        }
        passed
    }
}

/// Returns how long it is remembered that so many rows were passed.
fn lasts(rows: u32) -> Duration {
    EACH.saturating_mul(rows).clamp(FORGET.0, FORGET.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a lane that has looked at these rows, a while ago.
    fn looked(seqs: &[i64]) -> Below {
        let mut below = Below::default();
        seqs.iter().for_each(|seq| below.passed(*seq));
        below.mark = Instant::now().checked_sub(WHILE).map(|at| (at, seqs[seqs.len() - 1]));
        below
    }

    #[test]
    fn a_row_that_was_not_committed_is_pending_until_it_was_looked_at() {
        let mut below = looked(&[1, 3]);
        assert_eq!(below.ripe(3), Some(3));
        below.peeked(3, &[1, 2, 3], 3);
        assert_eq!((below.window(3), below.pending().collect()), (None, vec![2]));
        assert_eq!(below.unseen(&[1, 2, 3], 3), [2]);
        below.passed(2);
        assert_eq!((below.pending().count(), below.unseen(&[2], 3)), (0, vec![]));
    }

    #[test]
    fn a_row_that_was_rolled_back_is_forgotten() {
        let mut below = looked(&[1, 3]);
        below.peeked(3, &[2], 3);
        assert_eq!(below.ripe(3), None, "not so soon");
        below.mark = Instant::now().checked_sub(WHILE).map(|at| (at, 3));
        assert_eq!(below.ripe(3), Some(3));
        below.peeked(3, &[], 3);
        assert_eq!(below.pending().count(), 0);
    }

    #[test]
    fn what_was_read_just_now_is_read_again() {
        let below = {
            let mut below = Below::default();
            below.passed(7);
            below
        };
        assert_eq!(below.window(9), Some((0, 9)));
        assert_eq!(below.unseen(&[7, 8, 10], 9), [8], "what is above is read anyway");
    }

    #[test]
    fn what_was_passed_is_forgotten_the_sooner_the_fewer_rows_that_were() {
        let lasts = [0, 6_000, 12_000, 60_000, u32::MAX].map(|rows| lasts(rows).as_secs());
        assert_eq!(lasts, [30, 30, 60, 300, 300]);
    }

    #[test]
    fn many_pending_rows_are_looked_for_in_few_stretches() {
        let numbers: BTreeSet<i64> = (0..1_000).map(|number| number * 10).collect();
        assert!(runs(&numbers).len() <= STRETCHES);
        assert_eq!(runs(&BTreeSet::from([4, 5, 9])), [(3, 5), (8, 9)]);
    }
}
