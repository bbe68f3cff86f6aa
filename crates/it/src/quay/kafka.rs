//! Kafka as the suites need it: a topic of each test's own, with a place for its dead.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use async_trait::async_trait;
use broker::kafka::{Access, Kafka, KafkaFeed, Mechanism, Options, TRAITS};
use broker::manner::{Manner, Naming, Subscription};
use broker::traits::Traits;
use event::{EventId, Feed, Gauge, Secret, Sink};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio::time::sleep;

use super::berth::Berth;
use super::{Detour, Quay, Stray, WRONG};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// How long a broker may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// How many partitions a topic of a test has.
const PARTITIONS: i32 = 4;

/// Who is let in where a password is asked for.
const USER: &str = "postbox";

/// Of a broker of one's own, the door that asks for a password sends clients on to a fourth port.
/// Nobody listens there, unless a line is opened: clients of Kafka go where a broker says it is.
const DETOUR: [&str; 2] =
    ["--override", "advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{port4}"];

/// Who is let in by which password, where one is asked for.
const LOGIN: &str = "listener.name.sasl.plain.sasl.jaas.config";

/// A killed broker is let in again only after its session has run out.
const SOON: [&str; 2] = ["--override", "broker.session.timeout.ms=4000"];

/// One Kafka.
pub struct KafkaQuay {
    /// Where to connect without a password.
    pub url: String,
    /// Where to connect with one.
    pub guarded: String,
    /// The one.
    pub password: String,
    /// The port of the line, and where it leads to.
    line: Option<(u16, u16)>,
    berth: Berth,
}

/// Uses the broker of the world.
pub async fn shared() -> KafkaQuay {
    let server = need("kafka");
    let [url, guarded, password] =
        ["url", "guarded", "password"].map(|name| server.detail(name).to_owned());
    KafkaQuay { url, guarded, password, line: None, berth: Berth::shared() }
}

/// Starts a broker of its own.
pub async fn own() -> KafkaQuay {
    own_with(&[]).await
}

/// Starts a broker of its own with further settings.
pub async fn own_with(settings: &[&str]) -> KafkaQuay {
    let more: Vec<&str> = settings.iter().flat_map(|setting| ["--override", setting]).collect();
    let more = [&DETOUR[..], &SOON, &more].concat();
    let instance = Instance::start_with("kafka", &more).expect("a broker starts");
    let [_, guarded, _, line, ..] = instance.ports;
    let quay = KafkaQuay {
        url: instance.url.clone(),
        guarded: format!("kafka://127.0.0.1:{guarded}"),
        password: need("kafka").detail("password").to_owned(),
        line: Some((line, guarded)),
        berth: Berth::own(instance),
    };
    let sink = quay.sink(Berth::asking()).await.expect("the options are right");
    quay.berth.answers(&*sink).await.expect("the broker answers");
    quay
}

impl KafkaQuay {
    /// Returns the way in without a password.
    pub fn access(&self) -> Access {
        Access::open(&self.url)
    }

    /// Returns the way in with one.
    pub fn guarded(&self, password: &str) -> Access {
        let user = Some((USER.to_owned(), Secret::new(password)));
        Access { user, ..Access::open(&self.guarded) }
    }

    /// Returns the ways in by SCRAM, each of which has a password of its own.
    pub fn scrams(&self) -> [Access; 2] {
        let way =
            |mechanism, name| Access { mechanism, ..self.guarded(need("kafka").detail(name)) };
        [way(Mechanism::ScramSha256, "scram-sha-256"), way(Mechanism::ScramSha512, "scram-sha-512")]
    }

    /// Returns where the way in with a password begins that a test may bend, where that leads to,
    /// and the way in.
    pub fn bent(&self) -> Result<(SocketAddr, SocketAddr, Access)> {
        self.bent_with(&self.password)
    }

    fn bent_with(&self, password: &str) -> Result<(SocketAddr, SocketAddr, Access)> {
        let (at, to) = self.line.context("the world's broker has no port for a line")?;
        let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let access = Access { url: format!("kafka://127.0.0.1:{at}"), ..self.guarded(password) };
        Ok((address(at), address(to), access))
    }

    /// Returns a folder on the disk of the world's broker.
    pub fn folder(&self) -> PathBuf {
        need("kafka").run
    }

    /// Makes the options of a sink.
    pub fn options(&self, access: Access, manner: Manner) -> Options {
        Options { access, topic: Naming::default(), compression: "none".to_owned(), manner }
    }

    /// Makes a topic with some settings.
    pub async fn make(&self, partitions: i32, settings: &[(&str, &str)]) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        self.make_named(&topic, partitions, settings).await?;
        Ok(topic)
    }

    /// Makes a topic that has an event on its disk before each receipt.
    pub async fn make_durable(&self) -> Result<String> {
        self.make(1, &[("flush.messages", "1")]).await
    }

    /// Makes a topic of a name.
    pub async fn make_named(
        &self,
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let (options, until) = (AdminOptions::new(), Instant::now() + PATIENCE);
        // A broker that has just come, or was late on a busy machine, is asked again.
        while let Err(error) = created(admin.create_topics([&topic], &options).await) {
            ensure!(Instant::now() < until, "the topic cannot be made: {error}");
            sleep(LOOK).await;
        }
        let name = name.to_owned();
        tokio::task::spawn_blocking(move || {
            loop {
                let told = admin.inner().fetch_metadata(Some(&name), PATIENCE)?;
                if told.topics().iter().all(|topic| topic.error().is_none()) {
                    return Ok(());
                }
                ensure!(Instant::now() < until, "the topic does not appear");
                std::thread::sleep(LOOK);
            }
        })
        .await?
    }

    /// Returns what a client of the test's own is told.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.url.trim_start_matches("kafka://"));
        config
    }

    fn sink_by(&self, access: Access, manner: Manner) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Kafka::new(self.options(access, manner)).map_err(anyhow::Error::msg)?))
    }
}

/// Waits until a sink tells all of these; returns what it tells.
pub async fn levels(sink: &dyn Sink, gauges: &[Gauge]) -> Result<Vec<f64>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = sink.inspect().await;
        let seen = seen.map_err(|refusal| anyhow!("{refusal:?}"))?;
        let told = |gauge: &Gauge| seen.levels.iter().find(|level| level.gauge == *gauge);
        let told: Option<Vec<f64>> =
            gauges.iter().map(|gauge| told(gauge).map(|level| level.value)).collect();
        match told {
            Some(told) => return Ok(told),
            None => ensure!(Instant::now() < until, "it does not tell all: {seen:?}"),
        }
        sleep(LOOK).await;
    }
}

fn created(made: KafkaResult<Vec<TopicResult>>) -> Result<()> {
    match made?.into_iter().next().context("an answer")? {
        Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => Ok(()),
        Err((_, code)) => Err(anyhow!("{code}")),
    }
}

#[async_trait]
impl Quay for KafkaQuay {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.url.trim_start_matches("kafka://").parse()?)
    }

    fn lines(&self) -> String {
        format!("kind = \"kafka\"\nurl = \"{}\"", self.url)
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.password.clone()]
    }

    async fn topic(&self, _group: &str) -> Result<String> {
        let topic = self.make(PARTITIONS, &[]).await?;
        self.make_named(&format!("{topic}.dead"), 1, &[]).await?;
        Ok(topic)
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_by(self.access(), manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        let feed = KafkaFeed::new(&self.access(), subscription).map_err(anyhow::Error::msg)?;
        Ok(Arc::new(feed))
    }

    async fn dead(&self, _group: &str, topic: &str, _reader: &str) -> Result<Option<String>> {
        Ok(Some(format!("{topic}.dead")))
    }

    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        let producer: FutureProducer = self.config().create()?;
        let record: FutureRecord<'_, (), [u8]> = FutureRecord::to(topic).payload(bytes);
        producer.send(record, PATIENCE).await.map_err(|(error, _)| error)?;
        Ok(())
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        self.sink_by(self.guarded(WRONG), manner).map(Some)
    }

    async fn strange_feed(&self, subscription: Subscription) -> Result<Option<Stray>> {
        let (at, to, access) = self.bent_with(WRONG)?;
        let line = Line::open_at(at, to).await?;
        let feed = KafkaFeed::new(&access, subscription).map_err(anyhow::Error::msg)?;
        Ok(Some((Some(line), Arc::new(feed))))
    }

    async fn admit(&self) -> Result<()> {
        let user = format!("{LOGIN}=org.apache.kafka.common.security.plain.PlainLoginModule ");
        let user = user + &format!("required user_{USER}=\"{WRONG}\";");
        self.berth.instance()?.add(&["--override", &user]);
        self.restart().await
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let (at, to, access) = self.bent()?;
        let line = Line::open_at(at, to).await?;
        let sink = self.sink_by(access, manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>> {
        let (at, to, access) = self.bent()?;
        let line = Line::open_at(at, to).await?;
        let feed = KafkaFeed::new(&access, subscription).map_err(anyhow::Error::msg)?;
        Ok(Some((line, Arc::new(feed))))
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        self.berth.pause(paused)
    }

    async fn kill(&self) -> Result<()> {
        self.berth.kill()
    }

    async fn revive(&self) -> Result<()> {
        self.berth.revive(&*self.sink(Berth::asking()).await?).await
    }
}
