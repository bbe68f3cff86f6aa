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
    /// Begins to rest. Whoever finds it resting already makes it no longer.
    pub(super) fn begin(&self, chance: f64) {
        let (mut state, now) =
            (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if state.until.is_none_or(|until| until <= now) {
            state.times = state.times.saturating_add(1);
            // At least half, for a rest of nothing is none.
            state.until = Some(now + BACKOFF.pick(state.times, 0.5 + chance / 2.0));
        }
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
