//! A source that counts what is settled and when, and stops every lane once that is enough.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Claim, Outcome, Settled, Settlement, Source, StoreError, Want};
use tokio_util::sync::CancellationToken;

/// What the lanes of a drain have done together.
pub(super) struct Tally {
    start: Instant,
    /// How many settled rows are enough.
    enough: usize,
    pub(super) stop: CancellationToken,
    seen: Mutex<Seen>,
}

/// What was seen of claims and settlements.
#[derive(Default)]
pub(super) struct Seen {
    /// How long each claim took that claimed something.
    pub(super) claims: Vec<Duration>,
    /// How many rows were settled, and when that was known, since the start.
    pub(super) moments: Vec<(Duration, usize)>,
    pub(super) settled: usize,
}

impl Tally {
    pub(super) fn new(enough: usize) -> Tally {
        let (stop, seen) = (CancellationToken::new(), Mutex::default());
        Tally { start: Instant::now(), enough, stop, seen }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nothing panics while it is counted")
    }

    fn settled(&self, rows: usize) {
        if rows == 0 {
            return;
        }
        let at = self.start.elapsed();
        let mut seen = self.seen();
        seen.moments.push((at, rows));
        seen.settled += rows;
        if seen.settled >= self.enough {
            self.stop.cancel();
        }
    }
}

/// A source under a tally.
pub(super) struct Counted {
    pub(super) inner: Arc<dyn Source>,
    pub(super) tally: Arc<Tally>,
}

#[async_trait]
impl Source for Counted {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let began = Instant::now();
        let claimed = self.inner.claim(want).await?;
        if !claimed.is_empty() {
            self.tally.seen().claims.push(began.elapsed());
        }
        Ok(claimed)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let settled = self.inner.settle(ends).await?;
        // Whoever stops releases what it has claimed and not offered.
        let done = ends.iter().filter(|end| matches!(end.outcome, Outcome::Done(_))).count();
        self.tally.settled(done.min(settled.settled));
        Ok(settled)
    }

    async fn wait(&self, at_most: Duration) {
        self.inner.wait(at_most).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.inner.release().await
    }
}
