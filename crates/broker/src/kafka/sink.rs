//! The sink `kafka`: a whole batch at once into one idempotent producer, an answer for each event.
//!
//! Order per key (I6) needs no waiting for answers, except where a key changes its topic:
//! - Events of one key and topic go to one partition, in the order in which they are handed to the
//!   library, and one request at a time is out to a broker (`max.in.flight` = 1). More would be
//!   wrong: a broker that has not seen a producer on a partition takes any first sequence number,
//!   so the second of two requests can be stored though the first was refused, and the library
//!   then takes the first as stored too.
//! - The first event that fails ends the producer with all that is behind it; see `live`. What was
//!   still in its queue is `Held`, what was out is unknown. A deadline does the same, for the
//!   library's own would let the followers of what timed out pass.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Inspection, Receipt, Refusal, Sink};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::BaseRecord;
use tokio::time::{Instant, sleep_until, timeout};

use super::Options;
use super::access::Cluster;
use super::live::{Live, setting};
use super::look::{Look, NAMED};
use super::refusal::refusal;
use super::slots::Slots;
use super::wire::{self, Written};
use crate::manner::{Manner, Naming};

/// How long the library may take to hand back what was given up.
const RETURN: Duration = Duration::from_secs(5);
/// Events below this fit into every topic that anybody would make.
const SMALL: usize = 64 * 1024;
/// How many topics are remembered for a look at them.
const REMEMBERED: usize = 100;

/// Publishes events.
pub struct Kafka {
    cluster: Cluster,
    topic: Naming,
    manner: Manner,
    config: ClientConfig,
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    /// The next producer sends each event in a batch of its own, to find the one that is too large.
    alone: AtomicBool,
    /// Topics that were published to, and how large an event of each may be, as far as is known.
    topics: Mutex<HashMap<String, Option<usize>>>,
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
        let (live, alone) = (tokio::sync::Mutex::default(), AtomicBool::new(false));
        let topics = Mutex::default();
        Ok(Kafka { cluster, topic, manner, config, live, alone, topics })
    }

    /// Returns a producer that has reached the cluster.
    async fn live(&self, until: Instant) -> Result<Arc<Live>, Refusal> {
        let mut live = self.live.lock().await;
        if let Some(live) = live.as_ref().filter(|live| live.is_fit()) {
            return Ok(Arc::clone(live));
        }
        *live = None;
        let alone = self.alone.swap(false, Ordering::Relaxed);
        let mut config = self.config.clone();
        if alone {
            config.set("batch.num.messages", "1");
        }
        let fresh = Live::connect(&config, &self.cluster.hosts, alone, until).await?;
        *live = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    async fn let_go(&self, old: &Arc<Live>) {
        let mut live = self.live.lock().await;
        live.take_if(|live| Arc::ptr_eq(live, old));
    }

    /// Returns how many bytes an event of a topic may have, asked for once.
    async fn largest(&self, topic: &str) -> Option<usize> {
        if let Some(Some(known)) = self.topics().get(topic) {
            return Some(*known);
        }
        let look = Look::new(&self.cluster, self.manner.timeout);
        let known = look.largest(topic).await?;
        self.topics().insert(topic.to_owned(), Some(known));
        Some(known)
    }

    fn remember(&self, topic: &str) {
        let mut topics = self.topics();
        if topics.len() < REMEMBERED && !topics.contains_key(topic) {
            topics.insert(topic.to_owned(), None);
        }
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, Option<usize>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut batch = Batch::new(self, &live, events, until);
        while batch.wave().await {}
        let answers = batch.answers();
        if !live.is_fit() || live.alone {
            self.let_go(&live).await;
        }
        answers
    }

    /// A producer that stands has a connection open, and knows when it is lost; otherwise one is
    /// made.
    async fn probe(&self) -> Result<(), Refusal> {
        let until = Instant::now() + self.manner.timeout;
        let live = self.live(until).await?;
        let topic = self.topics().keys().next().cloned();
        let Some(topic) = topic else { return Ok(()) };
        let asked = live.ask(&topic, until).await;
        if asked.is_err() {
            self.let_go(&live).await;
        }
        asked
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        self.live(Instant::now() + self.manner.timeout).await?;
        let mut topics: Vec<String> = self.topics().keys().cloned().collect();
        if topics.is_empty() {
            topics.extend(self.topic.fixed().map(str::to_owned));
        }
        topics.sort_unstable();
        Look::new(&self.cluster, self.manner.timeout).inspect(topics).await
    }

    async fn close(&self) {
        self.live.lock().await.take();
    }
}

/// One publish: events, and their answers so far.
struct Batch<'a> {
    sink: &'a Kafka,
    live: &'a Arc<Live>,
    events: &'a [Event],
    until: Instant,
    answers: Vec<Option<Answer>>,
    /// Keys of which an event was refused: their later ones are held.
    refused: HashSet<&'a str>,
}

impl<'a> Batch<'a> {
    fn new(sink: &'a Kafka, live: &'a Arc<Live>, events: &'a [Event], until: Instant) -> Self {
        let answers = vec![None; events.len()];
        Batch { sink, live, events, until, answers, refused: HashSet::new() }
    }

    /// Offers all that may be out together, and waits for the answers. Tells whether there is more:
    /// events whose key was out to another topic.
    async fn wave(&mut self) -> bool {
        let slots = Slots::new(self.events.len());
        let mut topics: HashMap<&str, String> = HashMap::new();
        let (mut later, mut out) = (HashSet::new(), Vec::new());
        for (place, event) in self.events.iter().enumerate() {
            let key = event.key.as_deref();
            if self.answers[place].is_some() || key.is_some_and(|key| later.contains(key)) {
                continue;
            }
            if key.is_some_and(|key| self.refused.contains(key)) {
                self.answers[place] = Some(Err(Refusal::Held));
                continue;
            }
            let topic = self.sink.topic.of(event);
            if let Some(key) = key
                && topics.get(key).is_some_and(|other| *other != topic)
            {
                later.insert(key);
                continue;
            }
            match self.offer(place, event, &topic, &slots).await {
                Ok(()) => out.push(place),
                Err(refusal) => self.refuse(place, refusal),
            }
            if let Some(key) = key {
                topics.entry(key).or_insert(topic);
            }
        }
        self.wait(&slots).await;
        for place in out {
            match self.judge(place, &slots) {
                Ok(receipt) => self.answers[place] = Some(Ok(receipt)),
                Err(refusal) => self.refuse(place, refusal),
            }
        }
        !later.is_empty() && self.live.is_fit()
    }

    /// Hands one event to the library.
    async fn offer(
        &self,
        place: usize,
        event: &Event,
        topic: &str,
        slots: &Arc<Slots>,
    ) -> Result<(), Refusal> {
        let Written { headers, size } =
            wire::write(event, &self.sink.manner.source).map_err(Refusal::Reject)?;
        check(topic)?;
        self.open()?;
        self.live.topic(topic, self.until).await?;
        self.sink.remember(topic);
        if size > SMALL
            && let Some(largest) = self.sink.largest(topic).await
            && size > largest
        {
            return Err(Refusal::Reject(too_large(topic, size, largest)));
        }
        let mut record = BaseRecord::with_opaque_to(topic, slots.out(place));
        record = record.payload(event.payload.as_bytes()).headers(headers);
        if let Some(key) = &event.key {
            record = record.key(key.as_bytes());
        }
        loop {
            let progress = self.live.watch().progress();
            let (error, back) = match self.live.producer().send(record) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if full && self.open().is_ok() {
                tokio::select! {
                    () = progress => {}
                    () = self.sink.manner.stop.cancelled() => {}
                    () = sleep_until(self.until) => {}
                }
                record = back;
                continue;
            }
            back.delivery_opaque.take_back();
            return Err(if full { Refusal::Held } else { not_taken(&error, topic) });
        }
    }

    /// Tells whether anything may still be offered.
    fn open(&self) -> Result<(), Refusal> {
        let stopped = self.sink.manner.stop.is_cancelled();
        let open = !stopped && Instant::now() < self.until && self.live.is_fit();
        if open { Ok(()) } else { Err(Refusal::Held) }
    }

    async fn wait(&self, slots: &Slots) {
        tokio::select! {
            biased;
            () = slots.all() => return,
            () = self.live.fault() => {}
            () = sleep_until(self.until) => {}
        }
        self.live.purge();
        // What is not handed back even then has no answer, which is unknown.
        let _ = timeout(RETURN, slots.all()).await;
    }

    fn judge(&self, place: usize, slots: &Slots) -> Answer {
        let topic = self.sink.topic.of(&self.events[place]);
        let cut = self.live.cut();
        let late = Instant::now() >= self.until;
        match slots.told(place) {
            Some(Ok(put)) if put.offset >= 0 => {
                let id = format!("{topic}/{}/{}", put.partition, put.offset);
                Ok(Receipt { broker_id: Some(id) })
            }
            Some(Ok(_)) => Ok(Receipt { broker_id: None }),
            Some(Err(RDKafkaErrorCode::MessageSizeTooLarge)) if !self.live.alone => {
                self.sink.alone.store(true, Ordering::Relaxed);
                self.sink.topics().insert(topic.clone(), None);
                Err(refusal(RDKafkaErrorCode::MessageBatchTooLarge, &topic))
            }
            Some(Err(RDKafkaErrorCode::PurgeQueue)) if cut.is_none() && !late => Err(Refusal::Held),
            None | Some(Err(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)) => {
                Err(Refusal::Unknown(self.unanswered(&topic, cut)))
            }
            Some(Err(error)) => Err(refusal(error, &topic)),
        }
    }

    fn unanswered(&self, topic: &str, cut: Option<String>) -> Cause {
        if let Some(cut) = cut {
            return Cause::new(Code::SinkBroken, format_args!("it may have arrived: {cut}"));
        }
        let (last, timeout) = (self.live.last(), self.sink.manner.timeout);
        let last = if last.is_empty() { String::new() } else { format!("; {last}") };
        let detail = format_args!(
            "it may have arrived: {topic} did not acknowledge within {timeout:?}. Its leader may \
             be out of reach, or fewer replicas in sync than min.insync.replicas asks for{last}"
        );
        Cause::new(Code::SinkTimeout, detail)
    }

    fn refuse(&mut self, place: usize, refusal: Refusal) {
        self.refused.extend(self.events[place].key.as_deref());
        self.answers[place] = Some(Err(refusal));
    }

    /// Returns the answers. Once the cluster is out of reach, so is what was not offered.
    fn answers(self) -> Vec<Answer> {
        let down = self.answers.iter().flatten().find_map(|answer| match answer {
            Err(Refusal::Down(cause)) => Some(Refusal::Down(cause.clone())),
            _ => None,
        });
        let missing = down.unwrap_or(Refusal::Held);
        let fill = |answer: Option<Answer>| match answer {
            None | Some(Err(Refusal::Held)) => Err(missing.clone()),
            Some(answer) => answer,
        };
        self.answers.into_iter().map(fill).collect()
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
        ("batch.size", "524288"),
        ("batch.num.messages", "10000"),
        // The topic's own limit counts, and a broker or a look at its settings tells it.
        ("message.max.bytes", "1000000000"),
        ("queue.buffering.max.kbytes", "2097151"),
    ];
    for (name, value) in set {
        config.set(name, value);
    }
    // Later than our own deadline, which ends all at once.
    let backstop = 2 * manner.timeout + Duration::from_secs(60);
    config.set("message.timeout.ms", backstop.as_millis().to_string());
    let wait = manner.timeout.as_millis().clamp(1, 900_000);
    config.set("request.timeout.ms", wait.to_string());
    config.set("queue.buffering.max.messages", manner.concurrency.max(1).to_string());
    config.set("compression.type", compression);
    config
}

/// Judges what the library did not take from us: no broker has it.
fn not_taken(error: &KafkaError, topic: &str) -> Refusal {
    match error.rdkafka_error_code().map(|code| refusal(code, topic)) {
        Some(Refusal::Unknown(_)) | None => Refusal::Held,
        Some(refusal) => refusal,
    }
}

fn too_large(topic: &str, size: usize, largest: usize) -> Cause {
    let detail = format_args!(
        "{topic}: with its attributes it has {size} bytes; {NAMED} of the topic is {largest}: \
         raise it, or store the payload elsewhere and put a reference"
    );
    Cause::new(Code::TooLarge, detail)
}

/// Refuses a name that no broker would take.
fn check(topic: &str) -> Result<(), Refusal> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = (1..=249).contains(&topic.len()) && topic != "." && topic != "..";
    if fits && topic.chars().all(known) {
        return Ok(());
    }
    Err(refusal(RDKafkaErrorCode::InvalidTopic, &format!("{topic:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Access;

    fn options(url: &str) -> Options {
        Options {
            access: Access { url: url.to_owned(), user: None },
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
        assert!(Kafka::new(options("kafka+tls://127.0.0.1:1")).is_err());
    }

    #[test]
    fn a_name_that_no_broker_takes_is_rejected_with_the_rule() {
        assert!(check("order.paid_2-x").is_ok());
        for wrong in ["", ".", "..", "a b", "größe", &"x".repeat(250)] {
            let Err(Refusal::Reject(cause)) = check(wrong) else { panic!("{wrong:?}") };
            assert!(cause.detail.contains("letters, digits"), "{cause}");
        }
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
