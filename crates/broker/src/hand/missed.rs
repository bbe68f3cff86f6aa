//! What a broker has handed out and did not come to this hand: what is newer of its key waits, and
//! there is room for it however full the hand is, but neither for ever.
//!
//! It may come only while somebody asks. So for who asks rarely it is waited for longer, each time
//! a little, and only so often.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::{BEHIND, Hand, State};
use crate::lines::{Halt, Missed};

/// How often what was missed is asked for where there is no other room.
pub(super) const PACE: Duration = Duration::from_millis(100);
/// How many times as many may wait while what was missed is asked for.
const CROWDED: usize = 2;
/// How often a key may wait longer for what was missed while nobody asked. Each time there is room
/// for as many as may be in hand: so all that can have waited is asked for in so many times.
pub(super) const LONGER: usize = CROWDED * BEHIND;

impl<P: Ord + Clone + Eq + Hash, T: Clone> Hand<P, T> {
    /// The broker has handed out one of a key that did not come: what is newer of it waits.
    pub(crate) fn miss(&self, key: &str, place: P, missed: Missed) {
        self.state().lines.miss(key, place, missed);
        self.room.notify_waiters();
    }

    /// The broker has handed out some that did not come, of nobody knows what keys.
    pub(crate) fn halt(&self, halt: Halt<P>) {
        self.state().lines.halt(halt);
        self.room.notify_waiters();
    }

    /// What was missed of some places may have gone astray once more: it may come until then, and
    /// no longer than so long after it was due first.
    pub(crate) fn later(&self, until: Instant, most: Duration, of: impl Fn(&P) -> bool) {
        for (_, it) in self.state().lines.missed().filter(|(place, _)| of(place)) {
            it.until = it.until.max(until.min(it.due + most));
        }
    }

    /// What was missed of some places is ended: nothing waits for it any more.
    pub(crate) fn settled(&self, is: impl Fn(&P) -> bool) {
        self.state().lines.settled(is);
        self.free();
    }

    /// Tells whether anything was missed.
    pub(crate) fn misses(&self) -> bool {
        self.state().lines.missed().next().is_some()
    }
}

impl<P: Ord + Clone + Eq + Hash, T: Clone> State<P, T> {
    /// Somebody begins to ask. If nobody did for longer than the grace, what came to nobody
    /// meanwhile may come now, for as long.
    pub(super) fn wait_longer(&mut self, now: Instant, grace: Duration) {
        if self.asking > 0 || self.asked + grace >= now {
            return;
        }
        let soon = now + grace;
        let short = |it: &Missed| it.until < soon && it.longer < LONGER;
        for (_, missed) in self.lines.missed().filter(|(_, it)| short(it)) {
            (missed.until, missed.longer) = (soon, missed.longer + 1);
        }
    }

    /// Returns for how many there is room of what was missed and may come by now; or when that may
    /// be, if it may.
    pub(super) fn extra(&mut self, now: Instant, most: usize) -> Result<usize, Option<Instant>> {
        let due: Vec<Instant> = self.lines.missed().map(|(_, missed)| missed.due).collect();
        let Some(first) = due.iter().min() else { return Err(None) };
        let at = self.extra.max(*first);
        if at > now {
            return Err(Some(at));
        }
        self.extra = now + PACE;
        // What comes instead of it must not fill the hand without end.
        let spare = (most * BEHIND * CROWDED).saturating_sub(self.lines.len());
        match due.into_iter().filter(|due| *due <= now).count().min(spare) {
            0 => Err(Some(self.extra)),
            room => Ok(room),
        }
    }
}
