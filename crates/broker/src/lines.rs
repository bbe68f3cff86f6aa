//! What a feed may hand out now: of one key, no later delivery while an earlier one is out.
//!
//! Pure: it knows no broker and no lease, and ends nothing by itself.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

/// What came and waits, and the keys of which something is out. `P` is the place of a delivery at
/// its broker: of one key, a lower place comes first.
#[derive(Debug)]
pub(crate) struct Lines<P, T> {
    waiting: VecDeque<Came<P, T>>,
    out: HashMap<String, Out<P>>,
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
        Lines { waiting: VecDeque::new(), out: HashMap::new() }
    }
}

impl<P: Ord + Clone, T> Lines<P, T> {
    /// Puts what came into its line. One of the same place that still waits is replaced.
    pub(crate) fn arrive(&mut self, came: Came<P, T>) {
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
        let free = |came: &Came<P, T>| match came.key.as_ref().and_then(|key| self.out.get(key)) {
            Some(out) => out.place == came.place,
            None => true,
        };
        let at = self.waiting.iter().position(free)?;
        let came = self.waiting.remove(at)?;
        if let Some(key) = &came.key {
            self.out.insert(key.clone(), Out { place: came.place.clone(), until: None });
        }
        Some(came)
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
    }

    /// Returns when the next key has waited long enough.
    pub(crate) fn next_pass(&self) -> Option<Instant> {
        self.out.values().filter_map(|out| out.until).min()
    }

    /// Returns how many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many wait for nobody of their key that is out.
    pub(crate) fn free(&self) -> usize {
        let out =
            |came: &&Came<P, T>| came.key.as_ref().is_some_and(|key| self.out.contains_key(key));
        self.waiting.len() - self.waiting.iter().filter(out).count()
    }

    /// Shows what waits.
    pub(crate) fn waiting(&mut self) -> impl Iterator<Item = &mut Came<P, T>> {
        self.waiting.iter_mut()
    }

    /// Forgets what waits for which something holds, and everything that is out.
    pub(crate) fn clear(&mut self) -> Vec<Came<P, T>> {
        self.out.clear();
        self.waiting.drain(..).collect()
    }

    /// Forgets those that wait and that nobody may hand out any more.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Came<P, T>) -> bool) {
        self.waiting.retain(|came| !gone(came));
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
    fn one_place_waits_once() {
        let mut lines = Lines::default();
        lines.arrive(came(Some("a"), 1));
        lines.arrive(came(Some("a"), 1));
        assert_eq!(taken(&mut lines), [1]);
    }
}
