//! A moment, as every table stores it.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 00:00 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// Reads the machine's clock. It paces loops and labels pictures; it never judges a lease.
    pub fn now() -> Millis {
        Millis(jiff::Timestamp::now().as_millisecond())
    }

    /// Reads a moment as RFC 3339 writes it.
    pub fn parse(text: &str) -> Option<Millis> {
        text.parse().ok().map(|moment: jiff::Timestamp| Millis(moment.as_millisecond()))
    }

    /// Returns how long ago `earlier` was, or zero when it lies ahead.
    pub fn since(self, earlier: Millis) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Millis {
    type Output = Millis;

    fn add(self, duration: Duration) -> Millis {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Millis(self.0.saturating_add(millis))
    }
}

impl Sub<Duration> for Millis {
    type Output = Millis;

    fn sub(self, duration: Duration) -> Millis {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Millis(self.0.saturating_sub(millis))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}
