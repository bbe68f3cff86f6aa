//! The sink `kafka`: batches into one idempotent producer, an answer for each event.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Gauge, Inspection, Refusal, Sink};
use rdkafka::ClientConfig;
use tokio::time::Instant;

use super::Options;
use super::access::Cluster;
use super::batch::Batch;
use super::live::{Live, setting};
use super::look::Look;
use super::pace::Pace;
use super::topics::Topics;
use crate::leads::Leads;
use crate::manner::{Manner, Naming};

/// How many bytes the events of a batch may have, and never less than that.
const WIDEST: usize = 524_288;
const NARROWEST: usize = 1024;

/// Publishes events.
pub struct Kafka {
    cluster: Cluster,
    pub(super) topic: Naming,
    pub(super) manner: Manner,
    config: ClientConfig,
    pub(super) live: tokio::sync::Mutex<Option<Arc<Live>>>,
    /// Bytes in a batch: less after one was too large for its topic, and none of its events was.
    pub(super) width: AtomicUsize,
    pub(super) topics: Topics,
    pub(super) pace: Pace,
    leads: Leads,
    look: Look,
}

impl Kafka {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Kafka, Cause> {
        let Options { access, topic, compression, manner } = options;
        let cluster = Cluster::new(&access)?;
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, why);
        if !["none", "gzip", "snappy", "lz4"].contains(&&*compression) {
            return Err(invalid("compression: it is none of none, gzip, snappy, lz4"));
        }
        if manner.timeout.is_zero() {
            return Err(invalid("timeout: it must be longer than 0"));
        }
        let config = config(&cluster, &compression, &manner);
        config.create_native_config().map_err(|error| setting(&error))?;
        let (live, width) = (tokio::sync::Mutex::default(), AtomicUsize::new(WIDEST));
        let (leads, topics) = (Leads::new(&topic, &manner.topics), Topics::default());
        let look = Look::new(&cluster, manner.timeout);
        let pace = Pace::new(&manner.gates, &cluster.hosts, manner.concurrency);
        Ok(Kafka { cluster, topic, manner, config, live, width, topics, pace, leads, look })
    }

    /// Returns a producer that has reached the cluster.
    async fn live(&self, until: Instant) -> Result<Arc<Live>, Refusal> {
        let mut live = self.live.lock().await;
        if let Some(live) = live.as_ref().filter(|live| live.is_fit()) {
            return Ok(Arc::clone(live));
        }
        *live = None;
        let mut config = self.config.clone();
        config.set("batch.size", self.width.load(Ordering::Relaxed).to_string());
        let fresh = Live::connect(&config, &self.cluster, false, until).await?;
        *live = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Offers anew, each event by itself, what was refused because together it was too large: so
    /// only the one that is at fault is rejected, and at once.
    async fn one_by_one(&self, batch: &mut Batch<'_>, until: Instant) {
        let mut config = self.config.clone();
        config.set("batch.num.messages", "1");
        // Without it, they stay refused, and come again.
        let Ok(alone) = Live::connect(&config, &self.cluster, true, until).await else {
            return;
        };
        batch.anew(alone);
        while batch.wave().await {}
        if batch.is_tried() && !batch.has_too_large() {
            let narrower = |width: usize| Some((width / 2).max(NARROWEST));
            let _ = self.width.fetch_update(Ordering::Relaxed, Ordering::Relaxed, narrower);
        }
    }

    async fn let_go(&self, old: &Arc<Live>) {
        let mut live = self.live.lock().await;
        live.take_if(|live| Arc::ptr_eq(live, old));
    }

    /// Returns how many bytes an event of a topic may have, if the cluster tells. It is not asked
    /// for every event.
    pub(super) async fn largest(&self, topic: &str) -> Option<usize> {
        if let Some(told) = self.topics.told(topic, Instant::now()) {
            return told;
        }
        let largest = self.look.largest(topic).await;
        self.topics.tell(topic, largest, Instant::now());
        largest
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kafka").field("hosts", &self.cluster.hosts).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for Kafka {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        if events.is_empty() || self.manner.stop.is_cancelled() {
            return vec![Err(Refusal::Held); events.len()];
        }
        let until = Instant::now() + self.manner.timeout;
        let live = match self.live(until).await {
            Ok(live) => live,
            Err(refusal) => return vec![Err(refusal); events.len()],
        };
        let mut batch = Batch::new(self, Arc::clone(&live), events, until);
        while batch.wave().await {}
        if !live.is_fit() {
            self.let_go(&live).await;
        }
        if batch.is_too_large() {
            self.one_by_one(&mut batch, until).await;
        }
        batch.answers()
    }

    /// A producer that stands has a connection open, and knows when it is lost; otherwise one is
    /// made.
    async fn probe(&self) -> Result<(), Refusal> {
        let until = Instant::now() + self.manner.timeout;
        let live = self.live(until).await?;
        let Some(topic) = self.topics.names().into_iter().next() else { return Ok(()) };
        let asked = live.ask(&topic, until).await;
        if asked.is_err() {
            self.let_go(&live).await;
        }
        match asked {
            // An event ended it, which says nothing of its cluster; another may reach it.
            Err(Refusal::Held) => self.live(until).await.map(drop),
            asked => asked,
        }
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let looking = self.pace.look();
        self.live(Instant::now() + self.manner.timeout).await?;
        let seen = self.look.inspect(&self.leads, &self.topics.names()).await?;
        looking.tell(Inspection::total(&seen.levels, Gauge::Disk));
        Ok(seen)
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        self.live(Instant::now() + self.manner.timeout).await?;
        self.look.worth(&self.leads, &self.topics.names()).await
    }

    async fn close(&self) {
        self.live.lock().await.take();
        self.look.close();
    }
}

fn config(cluster: &Cluster, compression: &str, manner: &Manner) -> ClientConfig {
    let mut config = cluster.config(manner.timeout);
    let set = [
        ("enable.idempotence", "true"),
        ("enable.gapless.guarantee", "true"),
        ("acks", "all"),
        ("max.in.flight.requests.per.connection", "1"),
        // As the Java client has it, so that both put a key into the same partition.
        ("partitioner", "murmur2_random"),
        ("linger.ms", "1"),
        ("batch.num.messages", "10000"),
        // The topic's own limit counts, and a broker or a look at its settings tells it.
        ("message.max.bytes", "1000000000"),
        ("queue.buffering.max.kbytes", "2097151"),
        // The gate has counted them, and an event is in the queue for longer than it is out.
        ("queue.buffering.max.messages", "0"),
    ];
    for (name, value) in set {
        config.set(name, value);
    }
    // Later than our own deadline, which ends all at once.
    let backstop = 2 * manner.timeout + Duration::from_secs(60);
    config.set("message.timeout.ms", backstop.as_millis().to_string());
    let wait = manner.timeout.as_millis().clamp(1, 900_000);
    config.set("request.timeout.ms", wait.to_string());
    config.set("compression.type", compression);
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Access;

    fn options(url: &str) -> Options {
        Options {
            access: Access::open(url),
            topic: Naming::default(),
            compression: "none".to_owned(),
            manner: Manner::new("orders"),
        }
    }

    #[test]
    fn options_are_checked_before_anything_is_connected() {
        assert!(Kafka::new(options("kafka://127.0.0.1:1")).is_ok());
        let wrong = Options { compression: "zstd".into(), ..options("kafka://127.0.0.1:1") };
        assert_eq!(Kafka::new(wrong).unwrap_err().code, Code::ConfigInvalid);
        assert!(Kafka::new(options("kafkas://127.0.0.1:1")).is_err());
    }

    #[test]
    fn a_receipt_is_the_word_of_all_replicas_in_sync_and_a_second_try_leaves_no_second_copy() {
        let sink = Kafka::new(options("kafka://127.0.0.1:1")).unwrap();
        for (name, value) in [
            ("acks", "all"),
            ("enable.idempotence", "true"),
            // What was refused ends the producer, or its followers would pass it.
            ("enable.gapless.guarantee", "true"),
            ("max.in.flight.requests.per.connection", "1"),
        ] {
            assert_eq!(sink.config.get(name), Some(value), "{name}");
        }
    }

    #[tokio::test]
    async fn a_look_that_tells_nothing_is_not_taken_again_for_every_event() {
        let mut options = options("kafka://127.0.0.1:1");
        options.manner.timeout = Duration::from_secs(2);
        let sink = Kafka::new(options).unwrap();
        let began = Instant::now();
        assert_eq!(sink.largest("orders").await, None);
        let first = began.elapsed();
        assert!(first > Duration::from_millis(500), "nobody was asked: {first:?}");
        let began = Instant::now();
        for _ in 0..100 {
            assert_eq!(sink.largest("orders").await, None);
        }
        assert!(began.elapsed() < first, "{:?}, {first:?}", began.elapsed());
    }

    #[tokio::test]
    async fn nobody_at_the_address_is_down_soon_and_after_a_stop_nothing_is_asked() {
        let options = options("kafka://127.0.0.1:1");
        let (stop, sink) = (options.manner.stop.clone(), Kafka::new(options).unwrap());
        let began = Instant::now();
        let answers = sink.publish(&[Event::new("t", "T", "{}")]).await;
        let [Err(Refusal::Down(cause))] = &answers[..] else { panic!("{answers:?}") };
        assert!(cause.code == Code::SinkDown && cause.detail.contains("127.0.0.1:1"), "{cause}");
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        assert!(matches!(sink.probe().await, Err(Refusal::Down(_))));
        stop.cancel();
        let held = sink.publish(&[Event::new("t", "T", "{}")]).await;
        assert_eq!(held, [Err(Refusal::Held)]);
    }
}
