//! How long a consumer rests whose database or broker is away: longer each time, up to a bound.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use event::Backoff;
use tokio::time::Instant;

const BACKOFF: Backoff = Backoff { base: Duration::from_millis(100), cap: Duration::from_secs(10) };

/// When to go on.
#[derive(Debug, Default)]
pub(super) struct Rest(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    times: u32,
}

impl Rest {
    /// Begins to rest; returns until when. Whoever finds it resting already makes it no longer.
    pub(super) fn begin(&self, chance: f64) -> Instant {
        let (mut state, now) =
            (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if let Some(until) = state.until.filter(|until| *until > now) {
            return until;
        }
        state.times = state.times.saturating_add(1);
        let until = now + pause(state.times, chance);
        state.until = Some(until);
        until
    }

    /// Everything answers again.
    pub(super) fn over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Returns until when to rest.
    pub(super) fn until(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).until
    }
}

/// Returns how long to rest when it was in vain so many times in a row: at least half of what it
/// may be, for a rest of nothing is none.
pub(super) fn pause(times: u32, chance: f64) -> Duration {
    BACKOFF.pick(times, 0.5 + chance / 2.0)
}
