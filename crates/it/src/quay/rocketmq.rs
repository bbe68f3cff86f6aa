//! RocketMQ as the suites need it: FIFO topics and groups made by the broker's own protocol, for a
//! proxy makes none.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::rocketmq::remoting::{Desk, numbers};
use broker::rocketmq::{Access, Options, RocketMqFeed, Shape, TRAITS};
use broker::traits::Traits;
use event::{Answer, Code, Event, EventId, Feed, Millis, Refusal, Secret, Sink};
use serde_json::json;
use tokio::time::sleep;

use super::rocketmq_pull::Pull;
use super::rocketmq_users::{GUARDED, SECRET, USER};
use super::{Detour, Quay, Stray, WRONG, rocketmq_users};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// What the world calls it.
const SERVER: &str = "rocketmq";

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(100);

const MAKE_TOPIC: i32 = 17;
const MAKE_GROUP: i32 = 200;
const TOPIC_STATS: i32 = 202;
const SEND: i32 = 10;
const ROUTE: i32 = 105;

/// How the url of one without a proxy begins.
const WITHOUT: &str = "rocketmq+remoting://";

/// One RocketMQ.
pub struct RocketMqQuay {
    /// Where its proxy listens, with its name server; of one without a proxy, its name server.
    pub access: Access,
    pub(super) broker: Desk,
    /// Other masters that have the same topics and groups.
    pub(super) others: Vec<Desk>,
    /// How many queues a new topic gets on each.
    pub(super) width: usize,
    pub(super) names: Desk,
    instance: Option<Mutex<Instance>>,
}

/// Uses the server of the world.
pub async fn shared() -> RocketMqQuay {
    shared_of(SERVER)
}

pub(super) fn shared_of(server: &str) -> RocketMqQuay {
    let server = need(server);
    let (names, broker) = (server.detail("names"), server.detail("broker"));
    RocketMqQuay::new(server.detail("url"), names, broker, None, None)
}

/// Starts a server of its own.
pub async fn own() -> RocketMqQuay {
    own_with(&[], None).await
}

/// Starts a server of its own that lets nobody in without a key.
pub async fn guarded() -> RocketMqQuay {
    guarded_with(&[]).await
}

pub(super) async fn guarded_with(more: &[&str]) -> RocketMqQuay {
    own_with(&[GUARDED, more].concat(), Some((USER.to_owned(), Secret::new(SECRET)))).await
}

/// Starts a server of its own with other settings: `broker.KEY=VALUE`, `proxy.KEY=VALUE`, or
/// `file.NAME=TEXT` for a file beside them.
pub async fn own_with(settings: &[&str], keys: Option<(String, Secret)>) -> RocketMqQuay {
    own_of(SERVER, settings, keys).await
}

pub(super) async fn own_of(
    server: &str,
    settings: &[&str],
    keys: Option<(String, Secret)>,
) -> RocketMqQuay {
    let quay = begun(server, settings, keys);
    quay.answers().await.expect("the server answers");
    quay
}

/// Starts a server that does not answer yet.
pub(super) fn begun(
    server: &str,
    settings: &[&str],
    keys: Option<(String, Secret)>,
) -> RocketMqQuay {
    let instance = Instance::start_with(server, settings).expect("a server starts");
    let (names, broker) = (at(&instance, server, "names"), at(&instance, server, "broker"));
    let url = instance.url.clone();
    RocketMqQuay::new(&url, &names, &broker, keys, Some(Mutex::new(instance)))
}

/// Returns where a part of an instance listens.
pub(super) fn at(instance: &Instance, server: &str, part: &str) -> String {
    let server = need(server);
    // Each part has the same place in the row of ports as in the world.
    let shared: SocketAddr = server.detail(part).parse().expect("an address");
    let at = usize::from(shared.port() - server.socket.port());
    format!("127.0.0.1:{}", instance.ports[at])
}

impl RocketMqQuay {
    pub(super) fn new(
        url: &str,
        names: &str,
        broker: &str,
        keys: Option<(String, Secret)>,
        instance: Option<Mutex<Instance>>,
    ) -> RocketMqQuay {
        let desk = |address: &str| Desk {
            address: address.to_owned(),
            keys: keys.clone(),
            trust: None,
            patience: Duration::from_secs(20),
        };
        let (broker, names_desk) = (desk(broker), desk(names));
        let url = match url.starts_with(WITHOUT) {
            true => url.to_owned(),
            false => format!("{url}?nameserver={names}"),
        };
        let access = Access { url, keys };
        let (others, names, width) = (Vec::new(), names_desk, 16);
        RocketMqQuay { access, broker, others, width, names, instance }
    }

    /// Makes the options of a sink.
    pub fn options(&self, manner: Manner, shape: Shape) -> Options {
        Options { access: self.access.clone(), topic: Naming::default(), shape, manner }
    }

    /// Makes a topic of a type (`FIFO`, `NORMAL`, `DELAY`), and returns when it can be found.
    pub async fn make_topic(&self, topic: &str, kind: &str) -> Result<()> {
        self.write_topic(topic, "6", &format!("+message.type={kind}")).await
    }

    /// Lets nobody write to a topic any more, and returns when that is known.
    pub async fn close_topic(&self, topic: &str) -> Result<()> {
        self.write_topic(topic, "4", "").await
    }

    async fn write_topic(&self, topic: &str, rights: &str, attributes: &str) -> Result<()> {
        let width = self.width.to_string();
        let fields = [
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", &width),
            ("writeQueueNums", &width),
            ("perm", rights),
            ("topicFilterType", "SINGLE_TAG"),
            ("topicSysFlag", "0"),
            ("order", "false"),
            ("attributes", attributes),
        ];
        for broker in self.brokers() {
            broker.ask(MAKE_TOPIC, &fields, b"").await?;
        }
        let (until, rights) = (Instant::now() + PATIENCE, format!("\"perm\":{rights}"));
        loop {
            let told = self.names.ask(ROUTE, &[("topic", topic)], b"").await;
            let known = |body: &Vec<u8>| {
                let told = String::from_utf8_lossy(body);
                told.matches(&rights).count() == self.brokers().count()
            };
            if told.as_ref().is_ok_and(known) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "the topic cannot be found: {told:?}");
            sleep(LOOK).await;
        }
    }

    /// Returns how many events each queue of a topic has, broker by broker.
    pub async fn queues(&self, topic: &str) -> Result<Vec<Vec<i64>>> {
        let mut queues = Vec::new();
        for broker in self.brokers() {
            let told = broker.ask(TOPIC_STATS, &[("topic", topic)], b"").await?;
            queues.push(numbers(&String::from_utf8_lossy(&told), "maxOffset"));
        }
        Ok(queues)
    }

    fn brokers(&self) -> impl Iterator<Item = &Desk> {
        std::iter::once(&self.broker).chain(&self.others)
    }

    /// Makes a group, which keeps order or does not.
    pub async fn make_group(&self, group: &str, fifo: bool) -> Result<()> {
        let config = json!({
            "groupName": group, "consumeEnable": true, "consumeFromMinEnable": true,
            "consumeBroadcastEnable": true, "consumeMessageOrderly": fifo, "retryQueueNums": 1,
            "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": true,
        });
        for broker in self.brokers() {
            broker.ask(MAKE_GROUP, &[], config.to_string().as_bytes()).await?;
        }
        Ok(())
    }

    /// Waits until an event can be published.
    pub(super) async fn answers(&self) -> Result<()> {
        const TOPIC: &str = "quay-answers";
        let until = Instant::now() + PATIENCE;
        let manner = Manner { timeout: Duration::from_secs(5), ..Manner::new("it") };
        let sink = self.sink(manner).await?;
        loop {
            let made = self.make_topic(TOPIC, "FIFO").await;
            let published = match made {
                Ok(()) => sink.publish(&[Event::new(TOPIC, "Asked", "{}").key("k")]).await,
                Err(_) => Vec::new(),
            };
            // One that waits for a copy which nobody makes answers too.
            let answered = |answer: &Answer| match answer {
                Ok(_) => true,
                Err(Refusal::Unknown(cause)) => cause.code == Code::NotKept,
                Err(_) => false,
            };
            if published.iter().any(answered) {
                sink.close().await;
                return Ok(());
            }
            self.lives()?;
            ensure!(Instant::now() < until, "it does not answer: {published:?}");
            sleep(LOOK).await;
        }
    }

    /// Fails when its server has ended.
    pub(super) fn lives(&self) -> Result<()> {
        self.instance()?.lives()
    }

    fn instance(&self) -> Result<MutexGuard<'_, Instance>> {
        let own = self.instance.as_ref().context("the world's server is everybody's")?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sink_with(&self, access: Access, manner: Manner) -> Result<Arc<dyn Sink>> {
        let options = Options { access, ..self.options(manner, Shape::Fifo) };
        broker::rocketmq::sink(options).map_err(anyhow::Error::msg)
    }
}

#[async_trait]
impl Quay for RocketMqQuay {
    fn traits(&self) -> Traits {
        TRAITS
    }

    /// Returns where its proxy listens.
    fn address(&self) -> Result<SocketAddr> {
        let rest = self.access.url.trim_start_matches("rocketmq://");
        let host = rest.split('?').next().context("a host")?;
        Ok(host.parse()?)
    }

    fn lines(&self) -> String {
        format!("kind = \"rocketmq\"\nurl = \"{}\"", self.access.url)
    }

    fn secrets(&self) -> Vec<String> {
        self.access.keys.iter().map(|(_, secret)| secret.reveal().to_owned()).collect()
    }

    async fn topic(&self, group: &str) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        self.make_topic(&topic, "FIFO").await?;
        self.join(group, &topic).await?;
        Ok(topic)
    }

    async fn join(&self, group: &str, _topic: &str) -> Result<()> {
        self.make_group(group, true).await
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_with(self.access.clone(), manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        if self.access.url.starts_with(WITHOUT) {
            return Ok(Arc::new(Pull::new(self.brokers(), subscription)));
        }
        let feed = RocketMqFeed::new(&self.access, subscription).map_err(anyhow::Error::msg)?;
        Ok(Arc::new(feed))
    }

    async fn dead(&self, group: &str, _topic: &str, reader: &str) -> Result<Option<String>> {
        self.make_group(reader, false).await?;
        Ok(Some(format!("%DLQ%{group}")))
    }

    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        let now = Millis::now().0.to_string();
        let fields = [
            ("producerGroup", "foreign"),
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "4"),
            ("queueId", "0"),
            ("sysFlag", "0"),
            ("bornTimestamp", &now),
            ("flag", "0"),
            ("properties", ""),
            ("reconsumeTimes", "0"),
            ("unitMode", "false"),
            ("batch", "false"),
        ];
        self.broker.ask(SEND, &fields, bytes).await?;
        Ok(())
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        let Some((user, _)) = self.access.keys.clone() else { return Ok(None) };
        let keys = Some((user, Secret::new(WRONG)));
        self.sink_with(Access { keys, ..self.access.clone() }, manner).map(Some)
    }

    async fn strange_feed(&self, subscription: Subscription) -> Result<Option<Stray>> {
        match &self.access.keys {
            Some(_) => rocketmq_users::strange_feed(self, subscription).await.map(Some),
            None => Ok(None),
        }
    }

    async fn admit(&self) -> Result<()> {
        rocketmq_users::admit(self).await
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.address()?).await?;
        let url = format!("rocketmq://{}", line.address());
        let sink = self.sink_with(Access { url, ..self.access.clone() }, manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>> {
        if self.access.url.starts_with(WITHOUT) {
            return Ok(None);
        }
        let line = Line::open(self.address()?).await?;
        let url = format!("rocketmq://{}", line.address());
        let access = Access { url, ..self.access.clone() };
        let feed = RocketMqFeed::new(&access, subscription).map_err(anyhow::Error::msg)?;
        Ok(Some((line, Arc::new(feed))))
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        self.instance()?.pause(paused)
    }

    async fn kill(&self) -> Result<()> {
        self.instance()?.kill()
    }

    async fn revive(&self) -> Result<()> {
        self.instance()?.revive()?;
        self.answers().await
    }
}
