//! The relay into each broker, beside a bare loop of the same client library.
//!
//! The bare loop knows its events beforehand, and another bare loop drains a table of PostgreSQL
//! meanwhile: together they do what the relay does, without its promises. Events are counted at the
//! broker at the end of every loop.

mod backlog;
mod crew;
mod http;
mod java;
mod kafka;
mod letter;
mod nats;
mod pier;
mod rabbitmq;
mod redis;
mod rocketmq;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use event::Sink;

use crate::ROUNDS;
use crate::drain::{How, drain_to};
use crate::report::{Report, say};
use crate::stores;
use backlog::Backlog;
use pier::Pier;

/// Every broker, as it is named when it is asked for, and how many events each drain has, unless it
/// is said: enough for a while, so that neither the start nor one stall decides.
const BROKERS: [(&str, usize); 6] = [
    ("rocketmq", 50_000),
    ("kafka", 300_000),
    ("rabbitmq", 100_000),
    ("nats", 50_000),
    ("redis", 200_000),
    ("http", 100_000),
];

/// How long one drain may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns how many events each drain of a broker has, if it is one.
pub(crate) fn usual(name: &str) -> Option<usize> {
    BROKERS.iter().find(|(known, _)| *known == name).map(|(_, events)| *events)
}

/// Measures every broker that is named, or all.
pub(crate) async fn measure(names: &[String], events: Option<usize>) -> Result<Report> {
    let mut report = Report::default();
    let all = BROKERS.map(|(name, _)| name.to_owned());
    let bed = stores::postgres().await?;
    for name in if names.is_empty() { &all[..] } else { names } {
        let pier: Box<dyn Pier> = match name.as_str() {
            "rocketmq" => Box::new(rocketmq::Proxy::new().await),
            "kafka" => Box::new(kafka::Cluster::new().await),
            "rabbitmq" => Box::new(rabbitmq::Exchange::new().await),
            "nats" => Box::new(nats::JetStream::new().await),
            "redis" => Box::new(redis::Streams::new().await?),
            "http" => Box::new(http::Receiver::start()?),
            other => bail!("{other:?} is no broker; there are {}", all.join(", ")),
        };
        let events = events.or_else(|| usual(name)).with_context(|| name.clone())?;
        let backlog = Backlog { bed: &bed, events };
        let run = Run { pier: &*pier, name, backlog, sink: pier.sink().await? };
        run.measure(&mut report).await.with_context(|| name.clone())?;
        run.sink.close().await;
    }
    Ok(report)
}

/// The measurement of one broker. One sink is used for all of it, as in a relay that runs for long.
struct Run<'a> {
    pier: &'a dyn Pier,
    name: &'a str,
    backlog: Backlog<'a>,
    sink: Arc<dyn Sink>,
}

impl Run<'_> {
    async fn measure(&self, report: &mut Report) -> Result<()> {
        say(&format!("{}: {} events, warming up", self.name, self.backlog.events));
        self.relay(false).await?;
        self.limit().await?;
        let (mut plain, mut kept, mut java) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            let limit = self.limit().await?;
            let relay = self.relay(false).await?;
            let history = self.relay(true).await?;
            let peer = self.java().await?;
            let beside = peer.map(|rate| format!(", Java {rate:.0}")).unwrap_or_default();
            say(&format!(
                "{}, round {round} of {ROUNDS}: limit {limit:.0} per s, relay {relay:.0}, with \
                 history {history:.0}{beside}",
                self.name
            ));
            plain.push((limit, relay));
            kept.push((limit, history));
            java.extend(peer.map(|rate| (rate, relay)));
        }
        let what = self.pier.bare_loop();
        report.pair(self.named("relay_vs_limit"), what, &plain);
        report.pair(self.named("relay_history_vs_limit"), what, &kept);
        if !java.is_empty() {
            let what = "the official client in Java, and a table drained beside it";
            report.pair(self.named("relay_vs_java"), what, &java);
        }
        Ok(())
    }

    /// The relay, from a backlog until all is settled. Returns events per second.
    async fn relay(&self, history: bool) -> Result<f64> {
        let events = self.backlog.events;
        let topic = self.pier.topic().await?;
        let url = self.backlog.outbox(&topic).await?;
        let how = How { batch: 500, turns: 4, ..How::usual(history) };
        let draining = drain_to(&url, events, how, self.sink.clone());
        let drained = tokio::time::timeout(PATIENCE, draining).await;
        let drained = drained.context("the relay does not come to an end")??;
        self.ended(&topic, "the relay").await?;
        Ok(drained.rate)
    }

    /// Two bare loops at once: one publishes, one drains. Returns events per second.
    async fn limit(&self) -> Result<f64> {
        let topic = self.pier.topic().await?;
        let publishing = self.pier.bare(&topic, self.backlog.letters(&topic)).await?;
        let rate = self.beside_a_drain(publishing).await?;
        self.ended(&topic, "the bare loop").await?;
        Ok(rate)
    }

    /// The same with a producer in Java, where there is one.
    async fn java(&self) -> Result<Option<f64>> {
        let (topic, warm) = (self.pier.topic().await?, self.pier.topic().await?);
        let Some(command) = self.pier.java(&topic, &warm, self.backlog.events) else {
            return Ok(None);
        };
        let producer = java::Producer::start(command).await?;
        let rate = self.beside_a_drain(Box::pin(producer.publish())).await?;
        self.ended(&topic, "Java").await?;
        self.pier.clear(&warm).await?;
        Ok(Some(rate))
    }

    /// Drains a table while something is published, and returns events per second until both have
    /// ended.
    async fn beside_a_drain(&self, publishing: pier::Loop) -> Result<f64> {
        let url = self.backlog.outbox("order.paid").await?;
        let start = Instant::now();
        let publishing = tokio::spawn(publishing);
        self.backlog.drain(&url).await?;
        publishing.await??;
        Ok(self.backlog.events as f64 / start.elapsed().as_secs_f64())
    }

    /// Counts at the broker what a loop has published, and makes room for the next one.
    async fn ended(&self, topic: &str, who: &str) -> Result<()> {
        let (count, events) = (self.pier.count(topic).await?, self.backlog.events);
        ensure!(count == events, "{who} published {events} events, and the broker has {count}");
        self.pier.clear(topic).await
    }

    fn named(&self, what: &str) -> String {
        format!("{}_{what}", self.name)
    }
}
