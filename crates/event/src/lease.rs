//! When a lease runs.

use std::time::Duration;

use crate::Millis;

/// What is leased. Nobody leases it for longer than its `far`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// A shard: for the time of a few turns.
    Shard,
    /// An event that a consumer works on: for as long as that takes.
    Inbox,
}

impl Leased {
    const fn far(self) -> Duration {
        match self {
            Leased::Shard => Duration::from_secs(60 * 60),
            Leased::Inbox => Duration::from_secs(24 * 60 * 60),
        }
    }

    /// Tells whether a lease runs that lasts until `until`, for somebody who would take it for
    /// `lease`. One that seems to run far longer was taken by a clock that was ahead: to wait for
    /// it would stop everything for as long as that clock was wrong, and to take it costs no more
    /// than a second copy, because the fence has moved.
    pub fn runs(self, until: Millis, now: Millis, lease: Duration) -> bool {
        until > now && until.since(now) <= self.longest(lease)
    }

    /// Returns how long a lease can last at the most, for somebody who would take it for `lease`.
    pub fn longest(self, lease: Duration) -> Duration {
        self.far().max(10 * lease)
    }
}
