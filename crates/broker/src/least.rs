//! About the least that something small was waited for: what the way to a destination and its disk
//! cost by themselves, which is no sign of load.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// After about as many waits the least is forgotten.
const SLOWLY: u32 = 256;

/// The least of one destination.
#[derive(Debug, Default)]
pub(crate) struct Least(Mutex<Option<Duration>>);

impl Least {
    /// Learns how long something small was waited for.
    pub(crate) fn note(&self, waited: Duration) {
        let mut least = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *least = Some(raised(*least, waited));
    }

    /// Returns about the least, if anything was waited for.
    pub(crate) fn now(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the least, slowly raised, so that a destination which became slower for good is not held
/// against its past for ever.
fn raised(least: Option<Duration>, waited: Duration) -> Duration {
    match least {
        Some(least) if least < waited => least + (waited - least) / SLOWLY,
        _ => waited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(5);

    #[test]
    fn the_least_wait_falls_at_once_and_rises_slowly() {
        assert_eq!(raised(None, QUICK), QUICK);
        assert_eq!(raised(Some(QUICK * 2), QUICK), QUICK);
        assert!(raised(Some(QUICK), QUICK * 2) < QUICK * 11 / 10);
        let long = (0..2000).fold(QUICK, |least, _| raised(Some(least), QUICK * 20));
        assert!(long > QUICK * 19, "{long:?}");
    }
}
