//! The relay as it is: a lane from the store to a sink that accepts everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use event::{
    Answer, Backoff, Claim, Event, Policy, Receipt, Refusal, Settled, Settlement, Sink, Source,
    StoreError, Topics, Want,
};
use relay::{Lane, Options, SystemClock};
use store::Setup;
use tokio_util::sync::CancellationToken;

use crate::fill::Copy;

/// How many events one turn takes: the default of the product.
pub(crate) const BATCH: usize = 200;

/// Drains a copy. Returns rows per second, from the start of the lane to the last settled row.
pub(crate) async fn drain(copy: &Copy, events: usize, history: bool) -> Result<f64> {
    let outbox = store::open(&Setup { history, ..Setup::new(copy.url()) }).await?;
    let stop = CancellationToken::new();
    let inner = outbox.lane(store::Lane { topics: Topics::all(), ..Default::default() });
    let source = Arc::new(Counted { inner, left: AtomicUsize::new(events), stop: stop.clone() });
    let second = Duration::from_secs(1);
    let lane = Lane {
        outbox: "orders".into(),
        sink_name: "nowhere".into(),
        source,
        sink: Arc::new(Nowhere),
        clock: Arc::new(SystemClock),
        policy: Policy {
            limits: Vec::new(),
            attempts: 20,
            backoff: Backoff { base: second, cap: 600 * second },
            rest: 5 * second,
        },
        options: Options {
            batch: BATCH,
            bytes: 4 << 20,
            lease: 30 * second,
            idle: second,
            turns: 2,
            drain: 10 * second,
        },
    };
    let start = Instant::now();
    lane.run(&stop).await.map_err(|cause| anyhow::anyhow!("{cause}"))?;
    let rate = events as f64 / start.elapsed().as_secs_f64();
    let counts = outbox.catalog().count().await?;
    ensure!(counts.sent == events as u64 && counts.pending() == 0, "not drained: {counts:?}");
    outbox.close().await;
    Ok(rate)
}

/// A source that stops its lane once everything is settled.
struct Counted {
    inner: Arc<dyn Source>,
    left: AtomicUsize,
    stop: CancellationToken,
}

#[async_trait]
impl Source for Counted {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        self.inner.claim(want).await
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let settled = self.inner.settle(ends).await?;
        if self.left.fetch_sub(settled.settled, Ordering::SeqCst) == settled.settled {
            self.stop.cancel();
        }
        Ok(settled)
    }

    async fn wait(&self, at_most: Duration) {
        self.inner.wait(at_most).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.inner.release().await
    }
}

/// A sink that accepts everything.
struct Nowhere;

#[async_trait]
impl Sink for Nowhere {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        events.iter().map(|_| Ok(Receipt { broker_id: None })).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        Ok(())
    }
}
