//! What may still appear below a number that was read: rows of transactions that had begun then.
//!
//! A row's number is drawn after its transaction has an id. So a row that a look did not show, but
//! whose number is below one that it did show, belongs to a transaction that had its id and had not
//! ended. A snapshot names only some of those as open: it knows nothing of any above the newest one
//! that has ended. So all from there up to the next id that would have been given count as open.
//! When a later snapshot shows that one of them ended, the look goes back to where the numbers
//! stood before it began. A full look now and then is the net.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long after one full look the next one begins.
const FULL: Duration = Duration::from_secs(30);

/// In how many stretches transactions are remembered that no snapshot has named, at the most.
const STRETCHES: usize = 64;

/// Which transactions a look has seen the end of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// All below this have ended, except the open ones.
    next: u64,
    open: BTreeSet<u64>,
    /// Whoever had begun is below this, where that was told.
    begun: Option<u64>,
    mark: Mark,
}

/// Whoever begins from a transaction on draws numbers above that which was drawn before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    begun: u64,
    drawn: i64,
}

impl Snapshot {
    /// Reads PostgreSQL's form, `xmin:xmax:xid,xid`, and how old the transaction 3 is, which has 32
    /// bits and says which would be the next one.
    pub(crate) fn parse(text: &str, age: Option<i64>) -> Option<Snapshot> {
        let mut parts = text.split(':').skip(1);
        let next: u64 = parts.next()?.parse().ok()?;
        let open = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        let open = open.map(|xid| xid.parse().ok()).collect::<Option<_>>()?;
        let ahead = |age: i64| (age as u32).wrapping_add(3).wrapping_sub(next as u32);
        let begun = age.map(|age| next + u64::from(ahead(age)));
        Some(Snapshot { next, open, begun, mark: Mark::default() })
    }

    /// Makes a mark of what was drawn before it was told who would be the next.
    pub(crate) fn mark(&self, drawn: i64) -> Option<Mark> {
        self.begun.map(|begun| Mark { begun, drawn })
    }

    /// Adds what is known of the numbers that it is about.
    pub(crate) fn with(self, mark: Mark) -> Snapshot {
        Snapshot { mark, ..self }
    }

    fn ended(&self, xid: u64) -> bool {
        xid < self.next && !self.open.contains(&xid)
    }
}

/// A transaction that had begun and not ended at a look, or a stretch in which there may be some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) first: u64,
    /// The first one behind it.
    end: u64,
    /// What was not shown of theirs stands above this.
    pub(crate) from: i64,
}

impl Begun {
    /// Tells whether it is a stretch. Where any has ended that is as new, some of it may have.
    pub(crate) fn is_wide(&self) -> bool {
        self.end - self.first > 1
    }

    fn ended(&self, snapshot: &Snapshot) -> bool {
        if self.is_wide() { self.first < snapshot.next } else { snapshot.ended(self.first) }
    }
}

/// Transactions whose end would show more.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// They, in their order.
    open: Vec<Begun>,
    /// What the last look knew of the numbers: it is about all that began since.
    mark: Mark,
}

impl Late {
    /// Returns the transactions whose end would show more, and from where on.
    pub(crate) fn open(&self) -> impl Iterator<Item = Begun> + '_ {
        self.open.iter().copied()
    }

    /// Learns what a look saw before which the reading stood at `before`, and which looked at
    /// everything that those who ended have left.
    pub(crate) fn saw(&mut self, snapshot: &Snapshot, before: i64) {
        let from = |xid| self.from(snapshot, before, xid);
        let named = snapshot.open.iter();
        let named = named.map(|xid| Begun { first: *xid, end: *xid + 1, from: from(*xid) });
        let mut open: Vec<Begun> = named.collect();
        open.extend(self.unnamed(snapshot, before));
        (self.open, self.mark) = (open, snapshot.mark);
    }

    /// Returns above which number everything of a transaction stands that was not shown. One that
    /// was not there at the last look draws higher numbers than that look has shown.
    fn from(&self, snapshot: &Snapshot, before: i64, xid: u64) -> i64 {
        let at = self.open.partition_point(|begun| begun.end <= xid);
        let known = self.open.get(at).filter(|begun| begun.first <= xid);
        let from = known.map_or(before, |begun| begun.from);
        let marks = [self.mark, snapshot.mark].into_iter().filter(|mark| mark.begun <= xid);
        marks.map(|mark| mark.drawn).fold(from, i64::max)
    }

    /// Returns who may have begun above all that a snapshot has seen the end of.
    fn unnamed(&self, snapshot: &Snapshot, before: i64) -> Vec<Begun> {
        let (mut first, last) = (snapshot.next, snapshot.begun.unwrap_or(u64::MAX));
        let mut unnamed: Vec<Begun> = Vec::new();
        while first < last {
            let ends = self.open.iter().flat_map(|begun| [begun.first, begun.end]);
            let marks = [self.mark.begun, snapshot.mark.begun];
            let ends = ends.chain(marks).filter(|end| *end > first);
            let (end, from) = (ends.min(), self.from(snapshot, before, first));
            let end = end.map_or(last, |end| end.min(last));
            match unnamed.last_mut() {
                Some(below) if below.from == from => below.end = end,
                _ => unnamed.push(Begun { first, end, from }),
            }
            first = end;
        }
        while unnamed.len() > STRETCHES {
            let pairs = unnamed.chunks(2).map(|pair| Begun {
                first: pair[0].first,
                end: pair[pair.len() - 1].end,
                from: pair.iter().map(|begun| begun.from).min().unwrap_or(0),
            });
            unnamed = pairs.collect();
        }
        unnamed
    }

    /// Returns where a look under a snapshot must begin: at `from`, or further back.
    fn began(&self, snapshot: &Snapshot, from: i64) -> i64 {
        let ended = self.open.iter().filter(|begun| begun.ended(snapshot));
        ended.map(|begun| begun.from).min().map_or(from, |before| before.min(from))
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

    /// Reads a snapshot under which nobody had begun but those that it has seen.
    fn snapshot(text: &str) -> Snapshot {
        let seen = Snapshot::parse(text, None).unwrap();
        Snapshot { begun: Some(seen.next), ..seen }
    }

    /// Reads a snapshot under which that would have been the next one.
    fn up_to(begun: u64, text: &str) -> Snapshot {
        Snapshot { begun: Some(begun), ..snapshot(text) }
    }

    fn open(late: &Late) -> Vec<(u64, u64, i64)> {
        late.open().map(|begun| (begun.first, begun.end, begun.from)).collect()
    }

    #[test]
    fn a_snapshot_names_who_is_open_below_the_newest_that_has_ended() {
        let one = snapshot("10:20:10,15");
        assert!(one.ended(9) && one.ended(12) && !one.ended(15) && !one.ended(20));
        assert!(snapshot("7:7:").ended(6));
        for bad in ["", "1", "1:x:", "1:2:x"] {
            assert_eq!(Snapshot::parse(bad, None), None);
        }
    }

    #[test]
    fn an_age_of_32_bits_tells_the_next_transaction() {
        let begun = |text: &str, age| Snapshot::parse(text, age).unwrap().begun;
        assert_eq!(begun("10:20:", Some(22 - 3)), Some(22));
        assert_eq!(begun("10:20:", None), None, "it was not told");
        let (round, far) = (1_u64 << 32, i64::from(i32::MIN));
        assert_eq!(begun(&format!("10:{}:", round - 1), Some(5 - 3)), Some(round + 5));
        assert_eq!(begun(&format!("10:{}:", round + 7), Some(9 - 3)), Some(round + 9));
        assert_eq!(begun("10:2147483600:", Some(far)), Some(2_147_483_651));
    }

    #[test]
    fn the_end_of_a_transaction_takes_the_look_back_to_before_it_was_seen() {
        let mut sight = Sight::default();
        sight.saw(&up_to(10, "5:10:5"), 0, 0, None);
        sight.saw(&up_to(12, "5:12:5,11"), 40, 40, None);
        assert_eq!(open(&sight.late), [(5, 6, 0), (11, 12, 40)]);
        assert_eq!(sight.began(&snapshot("5:13:5"), 90), 40);
        assert_eq!(sight.began(&snapshot("13:13:"), 90), 0);
        sight.saw(&snapshot("5:13:5"), 40, 90, None);
        assert_eq!(open(&sight.late), [(5, 6, 0)]);
    }

    #[test]
    fn who_had_begun_above_all_that_have_ended_is_remembered_though_no_snapshot_names_him() {
        let mut late = Late::default();
        late.saw(&up_to(12, "10:10:"), 0);
        assert_eq!(open(&late), [(10, 12, 0)]);
        assert_eq!(late.began(&up_to(14, "10:10:"), 40), 40, "nobody has ended");
        assert_eq!(late.began(&up_to(14, "11:11:"), 40), 0);
        late.saw(&up_to(14, "11:13:11"), 40);
        assert_eq!(open(&late), [(11, 12, 0), (13, 14, 40)], "11 had begun at the first look");
    }

    #[test]
    fn where_it_is_not_told_who_is_next_anybody_may_have_begun() {
        let mut late = Late::default();
        late.saw(&Snapshot::parse("10:10:", None).unwrap(), 7);
        assert_eq!(open(&late), [(10, u64::MAX, 7)]);
        assert_eq!(late.began(&snapshot("13:13:"), 40), 7);
        late.saw(&up_to(15, "14:14:"), 40);
        assert_eq!(open(&late), [(14, 15, 7)], "nobody else had begun then");
        late.saw(&up_to(18, "16:16:"), 40);
        assert_eq!(open(&late), [(16, 18, 40)]);
    }

    #[test]
    fn who_begins_after_a_number_was_drawn_is_looked_for_above_it() {
        let mut late = Late::default();
        let mark = snapshot("12:12:").mark(900).unwrap();
        late.saw(&up_to(14, "10:11:10").with(mark), 20);
        assert_eq!(open(&late), [(10, 11, 20), (11, 12, 20), (12, 14, 900)]);
        assert_eq!(late.began(&snapshot("10:13:10,11"), 40), 40, "the reading is not there yet");
        let newer = snapshot("15:15:").mark(2_000).unwrap();
        late.saw(&up_to(16, "10:15:10,11,13,14").with(newer), 800);
        let seen = [(10, 11, 20), (11, 12, 20), (13, 14, 900), (14, 15, 900), (15, 16, 2_000)];
        assert_eq!(open(&late), seen, "14 began after the last look, and before the newer mark");
    }

    #[test]
    fn however_many_begin_while_nobody_ends_little_is_remembered() {
        let mut late = Late::default();
        for look in 0..1_000 {
            late.saw(&up_to(10 + 2 * (look as u64 + 1), "10:10:"), look);
        }
        assert!(late.open.len() <= STRETCHES, "{}", late.open.len());
        let whole = late.open.windows(2).all(|two| two[0].end == two[1].first);
        assert!(whole && late.open[0].first == 10 && late.open.last().unwrap().end == 2_010);
        for look in 0..1_000 {
            let began = late.from(&Snapshot::default(), 1_000, 10 + 2 * look as u64);
            assert!(began <= look, "{look} is looked for from {began}");
        }
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
