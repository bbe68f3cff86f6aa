//! How long the server has been asked for what comes, and what this feed itself needs of that.

use std::time::Duration;

use tokio::time::Instant;

/// How long one pull waits at the server. What comes to a pull that nobody waits for any more stays
/// here for a lease.
pub(super) const PULL: Duration = Duration::from_secs(2);
/// How long after its end a pull that the server has not ended is given up.
const LATE: Duration = Duration::from_secs(3);

/// When the server was asked, and for how long something else was done since, which is no fault of
/// the server's.
pub(super) struct Asked {
    at: Instant,
    aside: Duration,
}

impl Asked {
    /// It is asked now.
    pub(super) fn now() -> Asked {
        Asked { at: Instant::now(), aside: Duration::ZERO }
    }

    /// Does something else meanwhile.
    pub(super) async fn aside<T>(&mut self, doing: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = doing.await;
        self.aside += began.elapsed();
        done
    }

    /// Returns what is left of the lease of what is read now: it may have come before something
    /// else was done, and the server counts from then.
    pub(super) fn left(&self, lease: Duration) -> Duration {
        lease.saturating_sub(self.aside)
    }

    /// Tells whether the server should have ended it long ago.
    pub(super) fn is_late(&self) -> bool {
        self.at.elapsed() > PULL + LATE + self.aside
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_server_is_not_late_when_this_feed_was() {
        let mut asked = Asked::now();
        asked.aside(sleep(LATE * 9)).await;
        sleep(PULL).await;
        assert!(!asked.is_late());
        sleep(LATE * 2).await;
        assert!(asked.is_late());
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_while_this_feed_looked_has_no_longer_a_lease_than_at_the_server() {
        let lease = Duration::from_secs(60);
        let mut asked = Asked::now();
        sleep(PULL).await;
        assert_eq!(asked.left(lease), lease);
        let came = Instant::now();
        asked.aside(sleep(LATE)).await;
        asked.aside(sleep(LATE)).await;
        assert_eq!(Instant::now() + asked.left(lease), came + lease);
        asked.aside(sleep(lease)).await;
        assert_eq!(asked.left(lease), Duration::ZERO);
    }
}
