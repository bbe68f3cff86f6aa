//! One partition as a feed has it: what came, what is in hand, what is ended.
//!
//! Pure. Of one key, nothing is handed out before the earlier is ended. Entries without a key wait
//! for nobody.
//!
//! Offsets may go back: a log that lost its end, or that was made anew, is read again from an
//! earlier place. What stands there now need not be what stood there, so nothing of it counts as
//! ended; what comes twice by it is the inbox's to know.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tokio::time::Instant;

use super::marks::{Mark, WINDOW};

/// One partition.
#[derive(Debug)]
pub(super) struct Part<T> {
    /// Where the group is to go on; known when something came, or from its mark.
    position: Option<i64>,
    entries: BTreeMap<i64, Entry<T>>,
    /// How large the entries are together.
    bytes: usize,
    /// Ended by an earlier holder, and not come again yet.
    ended: BTreeSet<i64>,
    /// Whether the group has to be told.
    changed: bool,
}

/// What stands at an offset: it can be told from another that stood there, and has a size.
pub(super) trait Same {
    /// Tells whether it is the very same.
    fn is(&self, other: &Self) -> bool;
    /// Returns how many bytes it has.
    fn bytes(&self) -> usize;
}

/// What an arrival did beside being put in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Offsets went back, and this one was expected.
    pub(super) back_from: Option<i64>,
    /// Another was at its offset, which the log does not have any more.
    pub(super) instead: bool,
}

#[derive(Debug)]
struct Entry<T> {
    key: Option<Vec<u8>>,
    what: T,
    attempt: u32,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Waits,
    /// It was handed out, and shall be again.
    Again(Instant),
    InHand,
}

impl<T: Same> Part<T> {
    /// Takes a partition over from where its group is.
    pub(super) fn new(mark: Option<Mark>) -> Part<T> {
        let (position, ended) = match mark {
            Some(Mark { offset, ended }) => (Some(offset), ended),
            None => (None, BTreeSet::new()),
        };
        Part { position, entries: BTreeMap::new(), bytes: 0, ended, changed: false }
    }

    /// Puts in what came, unless it is ended or here already.
    pub(super) fn arrive(&mut self, offset: i64, key: Option<Vec<u8>>, what: T) -> Arrival {
        let back_from = self.position.filter(|position| offset < *position);
        if back_from.is_some() {
            self.ended.clear();
            self.changed = true;
        }
        self.position = Some(offset + 1);
        if self.ended.remove(&offset) {
            self.changed = true;
            return Arrival { back_from, instead: false };
        }
        if self.entries.get(&offset).is_some_and(|entry| entry.what.is(&what)) {
            return Arrival { back_from, instead: false };
        }
        self.bytes += what.bytes();
        let entry = Entry { key, what, attempt: 0, state: State::Waits };
        let instead = self.entries.insert(offset, entry);
        self.bytes -= instead.as_ref().map_or(0, |entry| entry.what.bytes());
        Arrival { back_from, instead: instead.is_some() }
    }

    /// Hands out the first that may be; returns its offset, how often it was handed out, and it.
    pub(super) fn next(&mut self, now: Instant) -> Option<(i64, u32, &T)> {
        let mut busy: HashSet<&[u8]> = HashSet::new();
        let mut found = None;
        for (offset, entry) in &self.entries {
            let key = entry.key.as_deref();
            if key.is_some_and(|key| busy.contains(key)) {
                continue;
            }
            let due = match entry.state {
                State::Waits => true,
                State::Again(at) => at <= now,
                State::InHand => false,
            };
            if due {
                found = Some(*offset);
                break;
            }
            busy.extend(key);
        }
        let offset = found?;
        let entry = self.entries.get_mut(&offset)?;
        entry.state = State::InHand;
        entry.attempt += 1;
        Some((offset, entry.attempt, &entry.what))
    }

    /// Returns when the first that shall come again is due.
    pub(super) fn wake(&self) -> Option<Instant> {
        let at = |entry: &Entry<T>| match entry.state {
            State::Again(at) => Some(at),
            _ => None,
        };
        self.entries.values().filter_map(at).min()
    }

    /// Returns what is in hand.
    pub(super) fn held(&self, offset: i64) -> Option<&T> {
        let entry = self.entries.get(&offset)?;
        (entry.state == State::InHand).then_some(&entry.what)
    }

    /// Ends what is in hand.
    pub(super) fn end(&mut self, offset: i64) {
        if let Some(entry) = self.entries.remove(&offset) {
            self.bytes -= entry.what.bytes();
            self.changed = true;
        }
    }

    /// Lets what is in hand come again.
    pub(super) fn again(&mut self, offset: i64, at: Instant) {
        if let Some(entry) = self.entries.get_mut(&offset) {
            entry.state = State::Again(at);
        }
    }

    /// Returns how many are not ended.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns how many bytes those have that are not ended.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells whether no more should come: what is ended could not be remembered.
    pub(super) fn is_wide(&self) -> bool {
        let first = self.entries.keys().next().copied();
        first.zip(self.position).is_some_and(|(first, position)| position - first > WINDOW / 2)
    }

    /// Returns where the group is now, if it has to be told.
    pub(super) fn mark(&mut self) -> Option<Mark> {
        let position = self.position.filter(|_| self.changed)?;
        self.changed = false;
        let first = self.entries.keys().next();
        let offset = first.map_or(position, |first| position.min(*first));
        // A compacted partition has gaps of any width.
        let come = (offset..position.min(offset + WINDOW))
            .filter(|offset| !self.entries.contains_key(offset));
        let ended = come.chain(self.ended.iter().copied()).collect();
        Some(Mark { offset, ended })
    }

    /// Says that the group could not be told.
    pub(super) fn untold(&mut self) {
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl Same for usize {
        fn is(&self, other: &usize) -> bool {
            self == other
        }

        fn bytes(&self) -> usize {
            *self
        }
    }

    fn part(keys: &[&str]) -> Part<usize> {
        let mut part = Part::new(None);
        for (n, key) in keys.iter().enumerate() {
            let key = (!key.is_empty()).then(|| key.as_bytes().to_vec());
            part.arrive(10 + n as i64, key, n);
        }
        part
    }

    fn take(part: &mut Part<usize>) -> Option<i64> {
        part.next(Instant::now()).map(|(offset, ..)| offset)
    }

    #[test]
    fn of_one_key_nothing_is_handed_out_before_the_earlier_is_ended() {
        let mut part = part(&["a", "a", "b", "", ""]);
        let all: Vec<_> = std::iter::from_fn(|| take(&mut part)).collect();
        assert_eq!(all, [10, 12, 13, 14]);
        part.end(10);
        assert_eq!(take(&mut part), Some(11));
        assert_eq!((take(&mut part), part.len()), (None, 4));
    }

    #[test]
    fn again_is_after_its_time_counted_and_before_its_followers() {
        let mut part = part(&["a", "a", "b"]);
        assert_eq!(take(&mut part), Some(10));
        let later = Instant::now() + Duration::from_secs(60);
        part.again(10, later);
        assert_eq!((take(&mut part), take(&mut part)), (Some(12), None));
        assert_eq!(part.wake(), Some(later));
        let (offset, attempt, _) = part.next(later).unwrap();
        assert_eq!((offset, attempt), (10, 2));
    }

    #[test]
    fn the_mark_is_the_first_that_is_not_ended_and_knows_the_later_ones() {
        let mut part = part(&["a", "b", "c", "d"]);
        while take(&mut part).is_some() {}
        assert_eq!(part.mark(), None, "nothing has changed");
        part.end(11);
        part.end(13);
        let mark = part.mark().unwrap();
        assert_eq!(mark, Mark { offset: 10, ended: [11, 13].into() });
        assert_eq!(part.mark(), None, "it was told");
        part.end(10);
        assert_eq!(part.mark().unwrap(), Mark { offset: 12, ended: [13].into() });
        part.end(12);
        assert_eq!(part.mark().unwrap(), Mark { offset: 14, ended: BTreeSet::new() });
    }

    #[test]
    fn what_an_earlier_holder_ended_does_not_come_again() {
        let mut part = Part::new(Some(Mark { offset: 10, ended: [11, 13].into() }));
        part.arrive(10, None, 0);
        assert_eq!(take(&mut part), Some(10));
        part.end(10);
        // Before all of it has come again, nothing of it is forgotten.
        assert_eq!(part.mark().unwrap(), Mark { offset: 11, ended: [11, 13].into() });
        for offset in 11..15 {
            part.arrive(offset, None, 0);
        }
        assert_eq!((take(&mut part), take(&mut part), take(&mut part)), (Some(12), Some(14), None));
        part.arrive(12, None, 0);
        assert_eq!(part.len(), 2, "what came twice is one");
    }

    #[test]
    fn a_log_that_lost_its_end_is_read_again_and_nothing_of_it_counts_as_ended() {
        let mut part = Part::new(Some(Mark { offset: 100, ended: [102].into() }));
        let went = part.arrive(0, None, 7);
        assert_eq!(went, Arrival { back_from: Some(100), instead: false });
        assert_eq!(part.mark().unwrap(), Mark { offset: 0, ended: BTreeSet::new() }, "at once");
        for offset in 1..104 {
            assert_eq!(part.arrive(offset, None, 7), Arrival::default());
        }
        let all: Vec<_> = std::iter::from_fn(|| take(&mut part)).collect();
        assert_eq!(all, (0..104).collect::<Vec<_>>());
    }

    #[test]
    fn bytes_are_those_of_what_is_not_ended() {
        let mut part = part(&["a", "b", "c", "d"]);
        assert_eq!(part.bytes(), 1 + 2 + 3);
        while take(&mut part).is_some() {}
        part.end(12);
        part.end(12);
        assert_eq!(part.bytes(), 1 + 3);
        part.arrive(11, None, 1);
        assert_eq!(part.bytes(), 1 + 3, "it was here already");
        part.arrive(11, None, 7);
        assert_eq!(part.bytes(), 7 + 3, "another stands there now");
    }

    #[test]
    fn what_comes_twice_keeps_its_holder_and_another_at_its_offset_takes_its_place() {
        let mut part = part(&["a", "b", "c"]);
        while take(&mut part).is_some() {}
        part.end(12);
        assert_eq!(part.arrive(11, None, 1), Arrival { back_from: Some(13), instead: false });
        assert_eq!(take(&mut part), None, "nothing of it waits");
        assert_eq!(part.held(11), Some(&1));
        // The first that is not ended is still the group's place.
        assert_eq!(part.mark().unwrap(), Mark { offset: 10, ended: BTreeSet::new() });
        let came = part.arrive(10, None, 7);
        assert_eq!(came, Arrival { back_from: Some(12), instead: true });
        assert_eq!(part.held(10), None, "what is in hand is another");
        assert_eq!((take(&mut part), part.held(10)), (Some(10), Some(&7)));
        part.end(10);
        part.end(11);
        assert_eq!(part.mark().unwrap().offset, 11, "where the log goes on");
    }
}
