//! What a feed may hand out now: of one key, no later delivery while an earlier one is out, or
//! missed: handed out by its broker, and not here.
//!
//! Pure: it knows no broker and no lease, and ends nothing by itself.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::time::Instant;

/// What came and waits, and the keys of which something is out. `P` is the place of a delivery at
/// its broker: of one key, a lower place comes first.
#[derive(Debug)]
pub(crate) struct Lines<P, T> {
    waiting: VecDeque<Came<P, T>>,
    out: HashMap<String, Out<P>>,
    /// What comes again, by its key. Each key waits for its own, but not for ever.
    missed: HashMap<String, BTreeMap<P, Missed>>,
    halts: Vec<Halt<P>>,
}

/// When one that was missed may come again, and until when its key waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    pub(crate) due: Instant,
    pub(crate) until: Instant,
    /// How often its key has waited longer because nobody had asked.
    pub(crate) longer: usize,
}

impl Missed {
    /// Makes one whose key has not waited longer yet.
    pub(crate) fn new(due: Instant, until: Instant) -> Missed {
        Missed { due, until, longer: 0 }
    }
}

/// Places after the first and up to the last wait: of what keys the first are missed, nobody knows.
#[derive(Debug)]
pub(crate) struct Halt<P> {
    pub(crate) after: P,
    pub(crate) last: P,
    pub(crate) missed: Missed,
}

/// One delivery as it came.
#[derive(Debug)]
pub(crate) struct Came<P, T> {
    pub(crate) key: Option<String>,
    pub(crate) place: P,
    pub(crate) what: T,
}

#[derive(Debug)]
struct Out<P> {
    place: P,
    /// Until when its key waits for it to come again; in hand there is no such time.
    until: Option<Instant>,
}

impl<P, T> Default for Lines<P, T> {
    fn default() -> Lines<P, T> {
        let (waiting, out, missed) = (VecDeque::new(), HashMap::new(), HashMap::new());
        Lines { waiting, out, missed, halts: Vec::new() }
    }
}

impl<P: Ord + Clone, T> Lines<P, T> {
    /// Puts what came into its line. One of the same place that still waits is replaced.
    pub(crate) fn arrive(&mut self, came: Came<P, T>) {
        self.found(came.key.as_deref(), &came.place);
        let same = |other: &Came<P, T>| other.place == came.place;
        if let Some(at) = self.waiting.iter().position(same) {
            self.waiting[at] = came;
            return;
        }
        let later = |other: &Came<P, T>| {
            came.key.is_some() && other.key == came.key && other.place > came.place
        };
        match self.waiting.iter().position(later) {
            Some(at) => self.waiting.insert(at, came),
            None => self.waiting.push_back(came),
        }
    }

    /// Takes the first whose key is free, or waits for exactly this one; its key is not free then.
    pub(crate) fn take(&mut self) -> Option<Came<P, T>> {
        let at = self.waiting.iter().position(|came| self.is_free(came))?;
        let came = self.waiting.remove(at)?;
        if let Some(key) = &came.key {
            self.out.insert(key.clone(), Out { place: came.place.clone(), until: None });
        }
        Some(came)
    }

    fn is_free(&self, came: &Came<P, T>) -> bool {
        let Some(key) = &came.key else { return true };
        let out = self.out.get(key).is_some_and(|out| out.place != came.place);
        let missed = self.missed.get(key).and_then(BTreeMap::first_key_value);
        let missed = missed.is_some_and(|(first, _)| *first < came.place);
        let halted = |halt: &Halt<P>| halt.after < came.place && came.place <= halt.last;
        !out && !missed && !self.halts.iter().any(halted)
    }

    /// The broker has handed out one of a key that is not here: what is newer of it waits.
    pub(crate) fn miss(&mut self, key: &str, place: P, missed: Missed) {
        self.missed.entry(key.to_owned()).or_default().insert(place, missed);
    }

    /// The broker has handed out some, of nobody knows what keys.
    pub(crate) fn halt(&mut self, halt: Halt<P>) {
        self.halts.push(halt);
    }

    /// Forgets what was missed of some places: it is ended.
    pub(crate) fn settled(&mut self, is: impl Fn(&P) -> bool) {
        self.missed.retain(|_, of| {
            of.retain(|place, _| !is(place));
            !of.is_empty()
        });
        self.halts.retain(|halt| !is(&halt.after));
    }

    /// Shows what was missed.
    pub(crate) fn missed(&mut self) -> impl Iterator<Item = (&P, &mut Missed)> {
        let halts = self.halts.iter_mut().map(|halt| (&halt.after, &mut halt.missed));
        self.missed.values_mut().flatten().chain(halts)
    }

    fn found(&mut self, key: Option<&str>, place: &P) {
        if let Some(key) = key
            && let Some(of) = self.missed.get_mut(key)
        {
            of.remove(place);
            if of.is_empty() {
                self.missed.remove(key);
            }
        }
    }

    /// It was ended: its key is free.
    pub(crate) fn end(&mut self, key: Option<&str>, place: &P) {
        if let Some(key) = key
            && self.out.get(key).is_some_and(|out| out.place == *place)
        {
            self.out.remove(key);
        }
    }

    /// It comes again, here or elsewhere: its key waits for it, but not for ever.
    pub(crate) fn comes_again(&mut self, key: Option<&str>, place: &P, until: Instant) {
        let out = key.and_then(|key| self.out.get_mut(key)).filter(|out| out.place == *place);
        if let Some(out) = out {
            out.until = Some(until);
        }
    }

    /// Frees the keys that have waited long enough.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.out.retain(|_, out| out.until.is_none_or(|until| until > now));
        self.missed.retain(|_, of| {
            of.retain(|_, missed| missed.until > now);
            !of.is_empty()
        });
        self.halts.retain(|halt| halt.missed.until > now);
    }

    /// Returns when the next key has waited long enough.
    pub(crate) fn next_pass(&mut self) -> Option<Instant> {
        let missed = self.missed().map(|(_, missed)| missed.until).min();
        self.out.values().filter_map(|out| out.until).chain(missed).min()
    }

    /// Returns how many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many wait for nobody of their key that is out, or missed.
    pub(crate) fn free(&self) -> usize {
        let may_go = |came: &&Came<P, T>| {
            !came.key.as_ref().is_some_and(|key| self.out.contains_key(key)) && self.is_free(came)
        };
        self.waiting.iter().filter(may_go).count()
    }

    /// Shows what waits.
    pub(crate) fn waiting(&mut self) -> impl Iterator<Item = &mut Came<P, T>> {
        self.waiting.iter_mut()
    }

    /// Forgets what waits for which something holds, and everything that is out.
    pub(crate) fn clear(&mut self) -> Vec<Came<P, T>> {
        self.out.clear();
        self.missed.clear();
        self.halts.clear();
        self.waiting.drain(..).collect()
    }

    /// Forgets those that wait and that nobody may hand out any more; returns them.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Came<P, T>) -> bool) -> Vec<Came<P, T>> {
        let (gone, kept) = self.waiting.drain(..).partition(|came| gone(came));
        self.waiting = kept;
        Vec::from(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn came(key: Option<&str>, place: u32) -> Came<u32, ()> {
        Came { key: key.map(str::to_owned), place, what: () }
    }

    fn taken(lines: &mut Lines<u32, ()>) -> Vec<u32> {
        std::iter::from_fn(|| lines.take()).map(|came| came.place).collect()
    }

    #[test]
    fn a_key_waits_for_its_earlier_and_no_other_key_does() {
        let mut lines = Lines::default();
        for (key, place) in [(Some("a"), 1), (Some("a"), 2), (Some("b"), 3), (None, 4), (None, 5)] {
            lines.arrive(came(key, place));
        }
        assert_eq!(taken(&mut lines), [1, 3, 4, 5]);
        assert_eq!(taken(&mut lines), [0; 0]);
        lines.end(Some("a"), &2);
        assert_eq!(taken(&mut lines), [0; 0], "another's end frees nothing");
        lines.end(Some("a"), &1);
        assert_eq!(taken(&mut lines), [2]);
    }

    #[test]
    fn what_comes_again_goes_before_its_followers() {
        let mut lines = Lines::default();
        for place in [1, 2, 3] {
            lines.arrive(came(Some("a"), place));
        }
        assert_eq!(taken(&mut lines), [1]);
        let now = Instant::now();
        lines.comes_again(Some("a"), &1, now + Duration::from_secs(5));
        lines.pass(now);
        assert_eq!(taken(&mut lines), [0; 0], "its followers wait for it");
        lines.arrive(came(Some("a"), 1));
        assert_eq!(taken(&mut lines), [1]);
        lines.end(Some("a"), &1);
        assert_eq!(taken(&mut lines), [2]);
        lines.arrive(came(Some("a"), 2));
        assert_eq!(taken(&mut lines), [2], "whoever held it has lost it");
    }

    #[test]
    fn what_came_to_somebody_else_holds_its_key_for_a_while_only() {
        let mut lines = Lines::default();
        lines.arrive(came(Some("a"), 1));
        lines.arrive(came(Some("a"), 2));
        assert_eq!(taken(&mut lines), [1]);
        let until = Instant::now() + Duration::from_secs(5);
        lines.comes_again(Some("a"), &1, until);
        assert_eq!(lines.next_pass(), Some(until));
        lines.pass(until);
        assert_eq!((taken(&mut lines), lines.len()), (vec![2], 0));
    }

    #[test]
    fn what_was_missed_goes_before_what_is_newer_of_its_key() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let later = now + Duration::from_secs(5);
        let missed = Missed::new(now, later);
        for place in [1, 2, 3] {
            lines.miss("a", place, missed);
        }
        for (key, place) in [("a", 4), ("b", 5), ("a", 2)] {
            lines.arrive(came(Some(key), place));
        }
        assert_eq!((taken(&mut lines), lines.free()), (vec![5], 0), "they wait for 1");
        lines.arrive(came(Some("a"), 1));
        assert_eq!(taken(&mut lines), [1]);
        lines.end(Some("a"), &1);
        assert_eq!(taken(&mut lines), [2]);
        lines.end(Some("a"), &2);
        assert_eq!(taken(&mut lines), [0; 0], "4 waits for 3");
        lines.settled(|place| *place <= 2);
        assert_eq!((taken(&mut lines), lines.next_pass()), (vec![], Some(later)));
        lines.settled(|place| *place <= 3);
        assert_eq!((taken(&mut lines), lines.next_pass()), (vec![4], None));
        lines.end(Some("a"), &4);
        lines.miss("a", 6, missed);
        lines.arrive(came(Some("a"), 7));
        lines.pass(now);
        assert_eq!(taken(&mut lines), [0; 0]);
        lines.pass(later);
        assert_eq!(taken(&mut lines), [7], "not for ever");
    }

    #[test]
    fn where_nobody_knows_what_was_missed_everything_newer_of_its_source_waits() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let missed = Missed::new(now, now + Duration::from_secs(5));
        lines.halt(Halt { after: 3, last: 10, missed });
        for (key, place) in [(Some("a"), 4), (Some("b"), 2), (None, 5), (Some("c"), 11)] {
            lines.arrive(came(key, place));
        }
        assert_eq!(taken(&mut lines), [2, 5, 11]);
        lines.settled(|place| *place < 3);
        assert_eq!(taken(&mut lines), [0; 0]);
        lines.settled(|place| *place <= 3);
        assert_eq!(taken(&mut lines), [4]);
    }

    #[test]
    fn one_place_waits_once() {
        let mut lines = Lines::default();
        lines.arrive(came(Some("a"), 1));
        lines.arrive(came(Some("a"), 1));
        assert_eq!(taken(&mut lines), [1]);
    }
}
