//! A clock that a test moves by hand. It never moves by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use event::Millis;
use store::Now;

/// The moment that every store under test takes for now.
#[derive(Clone, Debug)]
pub struct HandClock(Arc<AtomicI64>);

impl HandClock {
    /// Starts at a fixed moment, so that every run sees the same times.
    pub fn new() -> HandClock {
        HandClock(Arc::new(AtomicI64::new(1_700_000_000_000)))
    }

    /// Returns the moment.
    pub fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }

    /// Moves ahead.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Is set back, as a machine's clock may be.
    pub fn set_back(&self, by: Duration) {
        self.0.fetch_sub(millis(by), Ordering::SeqCst);
    }

    /// Returns the clock as a store takes it.
    pub fn hand(&self) -> Now {
        Now::Hand(self.0.clone())
    }
}

impl Default for HandClock {
    fn default() -> HandClock {
        HandClock::new()
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("no test waits for ages")
}
