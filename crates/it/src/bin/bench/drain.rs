//! The relay as it is: lanes from the store to a sink, which accepts everything unless another is
//! given.

mod tally;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use event::{Answer, Backoff, Event, Policy, Receipt, Refusal, Sink, Source, Topics};
use relay::{Lane, Options, SystemClock};
use store::{Outbox, Setup, Strategy};
use tokio::task::JoinSet;

use tally::{Counted, Tally};

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
    /// Rows per second, from the start of the lanes to the last settled row that was asked for.
    pub(crate) rate: f64,
    /// How many rows were settled. Turns under way at the end settle more than was asked for.
    pub(crate) settled: usize,
    /// How long each claim took that claimed something, the shortest first.
    pub(crate) claims: Vec<Duration>,
    /// How many rows were settled, and when since the start of the lanes, the first settled first.
    moments: Vec<(Duration, usize)>,
}

impl Drained {
    /// Returns the rows of each full second since the first was settled.
    pub(crate) fn seconds(&self) -> Vec<usize> {
        let first = self.moments.first().map_or(Duration::ZERO, |(at, _)| *at);
        let mut seconds: Vec<usize> = Vec::new();
        for (at, rows) in &self.moments {
            let second = usize::try_from((*at - first).as_secs()).unwrap_or(usize::MAX);
            if second >= seconds.len() {
                seconds.resize(second + 1, 0);
            }
            seconds[second] += rows;
        }
        // The last one was not over.
        seconds.pop();
        seconds
    }
}

/// Drains an outbox to its end.
pub(crate) async fn drain(url: &str, events: usize, how: How) -> Result<Drained> {
    drain_to(url, events, how, Arc::new(Nowhere)).await
}

/// Drains an outbox to its end, into a sink.
pub(crate) async fn drain_to(
    url: &str,
    events: usize,
    how: How,
    sink: Arc<dyn Sink>,
) -> Result<Drained> {
    let drained = run(url, events, how, sink).await?;
    let outbox = store::open(&Setup::new(url)).await?;
    let counts = outbox.catalog().count().await?;
    outbox.close().await;
    ensure!(drained.settled == events && counts.pending() == 0, "not drained: {counts:?}");
    Ok(drained)
}

/// Drains so many events of an outbox that may have more.
pub(crate) async fn drain_some(url: &str, events: usize, how: How) -> Result<Drained> {
    run(url, events, how, Arc::new(Nowhere)).await
}

async fn run(url: &str, events: usize, how: How, sink: Arc<dyn Sink>) -> Result<Drained> {
    let mut outboxes: Vec<Arc<dyn Outbox>> = Vec::new();
    for _ in 0..how.relays {
        let How { history, strategy, .. } = how;
        outboxes.push(store::open(&Setup { history, strategy, ..Setup::new(url) }).await?);
    }
    let before = outboxes[0].catalog().count().await?.sent;
    let tally = Arc::new(Tally::new(events));
    let over = |outbox: &Arc<dyn Outbox>| {
        let inner = outbox.lane(store::Lane { topics: Topics::all(), ..Default::default() });
        lane(Arc::new(Counted { inner, tally: tally.clone() }), sink.clone(), how)
    };
    let lanes: Vec<Lane> = outboxes.iter().map(over).collect();
    // Each runs by itself, as in the product.
    let mut running = JoinSet::new();
    for lane in lanes {
        let stop = tally.stop.clone();
        running.spawn(async move { lane.run(&stop).await });
    }
    while let Some(ended) = running.join_next().await {
        ended?.map_err(|cause| anyhow::anyhow!("{cause}"))?;
    }
    let seen = std::mem::take(&mut *tally.seen());
    let sent = outboxes[0].catalog().count().await?.sent - before;
    ensure!(sent == seen.settled as u64, "{sent} rows were sent, {} settled", seen.settled);
    for outbox in outboxes {
        outbox.close().await;
    }
    let (mut claims, moments) = (seen.claims, seen.moments);
    claims.sort();
    let mut settled = 0;
    let last = moments.iter().find(|(_, rows)| {
        settled += rows;
        settled >= events
    });
    let (took, _) = last.context("the lanes ended before everything was settled")?;
    let rate = events as f64 / took.as_secs_f64();
    Ok(Drained { rate, settled: seen.settled, claims, moments })
}

/// Returns a lane with the patience of the product.
pub(crate) fn lane(source: Arc<dyn Source>, sink: Arc<dyn Sink>, how: How) -> Lane {
    let second = Duration::from_secs(1);
    Lane {
        outbox: "orders".into(),
        sink_name: "nowhere".into(),
        source,
        sink,
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
