//! The relay as it is: lanes from the store to a sink that accepts everything.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use event::{
    Answer, Backoff, Claim, Event, Policy, Receipt, Refusal, Settled, Settlement, Sink, Source,
    StoreError, Topics, Want,
};
use relay::{Lane, Options, SystemClock};
use store::{Outbox, Setup, Strategy};
use tokio_util::sync::CancellationToken;

/// How many events one turn takes: the default of the product.
pub(crate) const BATCH: usize = 200;

/// How an outbox is drained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) batch: usize,
    pub(crate) turns: usize,
    pub(crate) history: bool,
    /// How relays divide the rows.
    pub(crate) strategy: Strategy,
    /// How many relays share the work.
    pub(crate) relays: usize,
}

impl How {
    /// As the product does by default.
    pub(crate) fn usual(history: bool) -> How {
        How { batch: BATCH, turns: 2, history, strategy: Strategy::Own, relays: 1 }
    }
}

/// What a drain came to.
pub(crate) struct Drained {
    /// Rows per second, from the start of the lanes to the last settled row.
    pub(crate) rate: f64,
    /// How long each claim took that claimed something, the shortest first.
    pub(crate) claims: Vec<Duration>,
}

/// Drains an outbox.
pub(crate) async fn drain(url: &str, events: usize, how: How) -> Result<Drained> {
    let stop = CancellationToken::new();
    let left = Arc::new(AtomicUsize::new(events));
    let claims = Arc::new(Mutex::default());
    let (mut outboxes, mut lanes): (Vec<Arc<dyn Outbox>>, Vec<Lane>) = Default::default();
    for _ in 0..how.relays {
        let How { history, strategy, .. } = how;
        let outbox = store::open(&Setup { history, strategy, ..Setup::new(url) }).await?;
        let inner = outbox.lane(store::Lane { topics: Topics::all(), ..Default::default() });
        let (left, stop, claims) = (left.clone(), stop.clone(), claims.clone());
        lanes.push(lane(Arc::new(Counted { inner, left, stop, claims }), how));
        outboxes.push(outbox);
    }
    let before = outboxes[0].catalog().count().await?.sent;
    let start = Instant::now();
    let running = lanes.iter().map(|lane| lane.run(&stop));
    let ended = futures_util::future::try_join_all(running).await;
    ended.map_err(|cause| anyhow::anyhow!("{cause}"))?;
    let rate = events as f64 / start.elapsed().as_secs_f64();
    let counts = outboxes[0].catalog().count().await?;
    let all = counts.sent - before == events as u64 && counts.pending() == 0;
    ensure!(all, "not drained: {counts:?}");
    for outbox in outboxes {
        outbox.close().await;
    }
    let mut claims = std::mem::take(&mut *claims.lock().expect("no claim panics"));
    claims.sort();
    Ok(Drained { rate, claims })
}

fn lane(source: Arc<dyn Source>, how: How) -> Lane {
    let second = Duration::from_secs(1);
    Lane {
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
            batch: how.batch,
            bytes: 4 << 20,
            lease: 30 * second,
            idle: second,
            turns: how.turns,
            drain: 10 * second,
        },
    }
}

/// A source that stops every lane once everything is settled.
struct Counted {
    inner: Arc<dyn Source>,
    left: Arc<AtomicUsize>,
    stop: CancellationToken,
    claims: Arc<Mutex<Vec<Duration>>>,
}

#[async_trait]
impl Source for Counted {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let began = Instant::now();
        let claimed = self.inner.claim(want).await?;
        if !claimed.is_empty() {
            self.claims.lock().expect("no claim panics").push(began.elapsed());
        }
        Ok(claimed)
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
