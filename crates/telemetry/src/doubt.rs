//! Whether a destination is back that turned events away.
//!
//! It may answer a probe and turn every event away. So it is back once it takes one in, or once it
//! answers a probe and there is no event left that could tell: none that this lane has claimed, or
//! has put back to claim it again. That nothing is due says nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how many times as long as an event was put back it may be left: a relay that competes may
/// have claimed it, and put it back, several times meanwhile.
const AGAIN: u32 = 6;

/// What is known of one lane.
#[derive(Default)]
pub(crate) struct Doubt(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether the destination has answered a probe since it turned events away.
    probed: bool,
    /// Until when events may be left that were put back.
    left: Option<Instant>,
    /// How many claims are under way: what one of them gets, the others do not.
    claiming: usize,
}

impl Doubt {
    /// Notes whether the destination answers a probe; it does not say so by an answer to events.
    pub(crate) fn probed(&self, well: bool) {
        self.state().probed = well;
    }

    /// Notes that an event was put back for so long.
    pub(crate) fn put_back(&self, after: Duration, now: Instant) {
        let until = Some(now + after * AGAIN);
        let mut state = self.state();
        state.left = state.left.max(until);
    }

    /// Begins a claim.
    pub(crate) fn claiming(&self) -> Claiming<'_> {
        self.state().claiming += 1;
        Claiming(self)
    }

    /// Takes in that a claim which began then got nothing. Tells once whether the destination is
    /// back by that.
    pub(crate) fn ends(&self, began: Instant) -> bool {
        let mut state = self.state();
        state.left.is_none_or(|left| left <= began) && std::mem::take(&mut state.probed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim that is under way.
pub(crate) struct Claiming<'a>(&'a Doubt);

impl Claiming<'_> {
    /// Tells whether no other one is.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.state().claiming == 1
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        self.0.state().claiming -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_a_probe_is_back_once_nothing_is_left_that_was_put_back() {
        let (doubt, now) = (Doubt::default(), Instant::now());
        assert!(!doubt.ends(now), "nobody was in doubt");
        let rest = Duration::from_secs(5);
        doubt.put_back(rest, now);
        doubt.put_back(Duration::ZERO, now);
        doubt.probed(true);
        assert!(!doubt.ends(now) && !doubt.ends(now + rest), "another relay may have had it");
        assert!(doubt.ends(now + rest * AGAIN) && !doubt.ends(now + rest * AGAIN), "once");
        doubt.probed(true);
        doubt.probed(false);
        assert!(!doubt.ends(now + rest * AGAIN));
    }
}
