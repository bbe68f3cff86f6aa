//! How long an event takes from its commit to the sink, at a steady load of small transactions.
//!
//! The time starts when the producer asks for its commit, which nothing can be ahead of, or when it
//! knows of it; and it ends where a sink would publish.

mod bare;
mod load;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use event::{Answer, Event, Receipt, Refusal, Sink, Topics};
use postbox::Ring;
use store::Setup;
use tokio_util::sync::CancellationToken;

use super::{Run, at};
use crate::ROUNDS;
use crate::drain::{How, lane};
use crate::report::Report;
use load::{Times, Watch, Way};

/// How many events at the most: ten seconds of them.
const MOST: usize = 2000;

/// How the relay learns of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// The producer, in the same process, rings after its commit.
    Ring,
    /// The producer rings across the database, and the relay listens.
    Notify,
}

/// Which of the times count.
type Start = fn(&Times) -> &[Duration];

impl Run<'_> {
    /// The relay beside a bare loop that is notified in the producer's transaction.
    pub(super) async fn latency(&self, report: &mut Report) -> Result<()> {
        if !self.bed.listens() {
            return Ok(());
        }
        let (url, events) = (self.bed.outbox(0, 0).await?, self.events.min(MOST));
        bare::prepare(&url).await?;
        let ways = [
            ("latency", Wake::Ring, "a ring after the commit"),
            ("latency_notify", Wake::Notify, "a ring across the database"),
        ];
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let bare = Arc::new(bare::measure(&url, events).await?);
            for ((_, wake, _), rounds) in ways.iter().zip(&mut rounds) {
                rounds.push((bare.clone(), relayed(&url, events, *wake).await?));
            }
        }
        let since: [(&str, &str, Start); 2] = [
            ("", "asking for the commit", |times| &times.asked),
            ("_known", "knowing of the commit", |times| &times.known),
        ];
        for ((name, _, how), rounds) in ways.iter().zip(&rounds) {
            for (start, from, times) in &since {
                for (place, share) in [("p50", 0.5), ("p99", 0.99)] {
                    let pair = |(bare, relayed): &(Arc<Times>, Times)| {
                        (at(times(bare), share), at(times(relayed), share))
                    };
                    let pairs: Vec<(f64, f64)> = rounds.iter().map(pair).collect();
                    let what = format!("ms from {from} to the sink, {how}; beside a LISTEN loop");
                    report.times(self.named(&format!("{name}{start}_{place}")), &what, &pairs);
                }
            }
        }
        Ok(())
    }
}

/// Returns how long events took through the outbox.
async fn relayed(url: &str, events: usize, wake: Wake) -> Result<Times> {
    let listen = wake == Wake::Notify;
    let outbox = store::open(&Setup { listen, ..Setup::new(url) }).await?;
    let ring = match wake {
        Wake::Ring => Ring::of(outbox.clone()),
        Wake::Notify => Ring::across(url, "outbox").await?,
    };
    let (watch, stop) = (Arc::new(Watch::default()), CancellationToken::new());
    let source = outbox.lane(store::Lane { topics: Topics::all(), ..Default::default() });
    let lane = lane(source, Arc::new(Seen(watch.clone())), How::usual(true));
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { lane.run(&stop).await }
    });
    let times = load::measure(url, events, &Way::Put(ring), &watch).await;
    stop.cancel();
    running.await?.map_err(|cause| anyhow::anyhow!("{cause}"))?;
    outbox.close().await;
    times
}

/// A sink that notes when events come, and accepts them.
struct Seen(Arc<Watch>);

#[async_trait]
impl Sink for Seen {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        self.0.arrived(events.iter().map(|event| event.id));
        events.iter().map(|_| Ok(Receipt { broker_id: None })).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        Ok(())
    }
}
