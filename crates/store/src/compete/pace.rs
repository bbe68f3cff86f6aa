//! How often a lane looks that has found nothing, and how long it believes what it has seen.

use std::time::{Duration, Instant};

/// The shortest and the longest time between two looks of a lane that finds nothing.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// How long after one full look at the later rows the next one begins.
const FULL: Duration = Duration::from_secs(30);

/// How old a due time is when no settlement that is still under way can write an older one: work
/// on a database is cut off sooner.
pub(crate) const TRUST: Duration = Duration::from_secs(45);

/// One lane's pace.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How many claims in a row got nothing.
    empty: u32,
    full: Instant,
    /// The ring that the newest claim has heard.
    pub(crate) heard: u64,
    /// Whether the newest claim found all that it wanted in one line.
    pub(crate) plenty: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { empty: 0, full: Instant::now(), heard: 0, plenty: false }
    }
}

impl Pace {
    /// Learns how many rows a claim got.
    pub(crate) fn claimed(&mut self, rows: usize) {
        self.empty = if rows > 0 { 0 } else { self.empty.saturating_add(1) };
    }

    /// Returns how long to wait before the next look. What is there may be another lane's, or open
    /// in another relay's hands: the look alone cannot tell.
    pub(crate) fn pause(&self, looks: u32) -> Duration {
        let times = self.empty.saturating_add(looks);
        let pause = LOOK.0.saturating_mul(1 << times.min(8)) / 2;
        if times == 0 { Duration::ZERO } else { pause.min(LOOK.1) }
    }

    /// Tells whether it is time to look at every later row again, and begins the next term if so.
    /// Another relay may have set one down where this lane has passed.
    pub(crate) fn full(&mut self) -> bool {
        let full = self.full.elapsed() >= FULL;
        if full {
            self.full = Instant::now();
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_gets_nothing_looks_less_and_less_often_up_to_a_limit() {
        let mut pace = Pace::default();
        assert_eq!(pace.pause(0), Duration::ZERO);
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            pace.claimed(0);
            assert!(pace.pause(0) >= last && pace.pause(0) <= LOOK.1);
            last = pace.pause(0);
        }
        assert_eq!(last, LOOK.1);
        pace.claimed(1);
        assert_eq!(pace.pause(0), Duration::ZERO);
    }
}
