//! Three nodes of Kafka that are one cluster. The first is its controller too, and stays; each of
//! the others can be killed, or put to sleep, by itself.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use broker::kafka::{Access, Kafka, Options};
use broker::manner::{Manner, Naming};
use event::EventId;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::instance::Instance;
use crate::world::need;

/// How long the nodes may take to find each other, or out that one is away.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A node that is silent for so long is taken for dead.
const SOON: &str = "broker.session.timeout.ms=4000";

/// What the nodes are called; the world's broker is a first one, too.
const NODES: [i32; 3] = [1, 2, 3];

/// A partition, as the cluster tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who leads it; -1 is nobody.
    pub leader: i32,
    /// Which replicas have all of it.
    pub in_sync: Vec<i32>,
}

/// An event as it stands in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `topic/partition/offset`, as a receipt names it.
    pub place: String,
    /// Its id.
    pub id: String,
    /// Its key.
    pub key: Option<String>,
}

/// Three nodes.
pub struct KafkaCluster {
    nodes: [Mutex<Instance>; NODES.len()],
    /// Where the second and the third keep their partitions.
    _disks: [TempDir; 2],
}

/// Starts three nodes; returns when each knows the others.
pub async fn cluster() -> Result<KafkaCluster> {
    let first = Instance::start_with("kafka", &["--override", SOON])?;
    let [_, _, controller, ..] = first.ports;
    let (second, third) = (disk(NODES[1])?, disk(NODES[2])?);
    let nodes =
        [first, broker(NODES[1], &second, controller)?, broker(NODES[2], &third, controller)?];
    let cluster = KafkaCluster { nodes: nodes.map(Mutex::new), _disks: [second, third] };
    cluster.knows(&NODES).await?;
    Ok(cluster)
}

/// Makes a folder that is a node's own. The template's says that it is the first's.
fn disk(node: i32) -> Result<TempDir> {
    let server = need("kafka");
    let folder = tempfile::tempdir_in(server.run.join("tmp").canonicalize()?)?;
    // The node runs as another user, and writes down what else it wants to know.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let written =
        fs::read_to_string(format!("{}/logs/meta.properties", server.detail("template")))?;
    let id = written.lines().find(|line| line.starts_with("cluster.id="));
    let id = id.context("the template has no cluster.id")?;
    fs::write(folder.path().join("meta.properties"), format!("version=1\n{id}\nnode.id={node}\n"))?;
    Ok(folder)
}

/// Starts a node that is no controller.
fn broker(node: i32, disk: &TempDir, controller: u16) -> Result<Instance> {
    let settings = [
        "process.roles=broker".to_owned(),
        format!("node.id={node}"),
        format!("log.dirs={}", disk.path().display()),
        format!("controller.quorum.voters={}@127.0.0.1:{controller}", NODES[0]),
        "listeners=PLAINTEXT://127.0.0.1:{port}".to_owned(),
        "advertised.listeners=PLAINTEXT://127.0.0.1:{port}".to_owned(),
    ];
    let more: Vec<&str> =
        settings.iter().flat_map(|setting| ["--override", setting.as_str()]).collect();
    Instance::start_with("kafka", &more)
}

impl KafkaCluster {
    /// Returns where a client begins.
    pub fn url(&self) -> String {
        let ports = self.nodes.each_ref().map(|node| node_of(node).ports[0]);
        format!("kafka://{}", ports.map(|port| format!("127.0.0.1:{port}")).join(","))
    }

    /// Returns the lines of a relay's sink to it.
    pub fn lines(&self) -> String {
        format!("kind = \"kafka\"\nurl = \"{}\"", self.url())
    }

    /// Makes a sink.
    pub fn sink(&self, manner: Manner) -> Kafka {
        let access = Access::open(&self.url());
        let (topic, compression) = (Naming::default(), "none".to_owned());
        Kafka::new(Options { access, topic, compression, manner }).expect("the options are right")
    }

    /// Returns what a client of the test's own is told.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.url().trim_start_matches("kafka://"));
        config
    }

    /// Makes a topic; of each partition, `replicas` says who has it, and the first of them leads.
    pub async fn make(&self, replicas: &[&[i32]], settings: &[(&str, &str)]) -> Result<String> {
        let name = format!("topic-{}", EventId::new());
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let partitions = i32::try_from(replicas.len())?;
        let mut topic = NewTopic::new(&name, partitions, TopicReplication::Variable(replicas));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let made = admin.create_topics([&topic], &AdminOptions::new()).await?;
        made.into_iter().next().context("an answer")?.map_err(|(_, code)| anyhow!("{code}"))?;
        self.has(&name, "all in sync", |at, part| part.in_sync.len() == replicas[at].len()).await?;
        Ok(name)
    }

    /// Kills a node; returns when it is gone.
    pub fn kill(&self, node: i32) -> Result<()> {
        self.node(node).kill()
    }

    /// Stops a node in the midst of whatever it does, or lets it go on.
    pub fn pause(&self, node: i32, paused: bool) -> Result<()> {
        self.node(node).pause(paused)
    }

    /// Starts a killed node again on what it left.
    pub fn revive(&self, node: i32) -> Result<()> {
        self.node(node).revive()
    }

    /// Waits until every partition of a topic is as asked; returns them.
    pub async fn has(
        &self,
        topic: &str,
        what: &str,
        is: impl Fn(usize, &Part) -> bool,
    ) -> Result<Vec<Part>> {
        let until = Instant::now() + PATIENCE;
        loop {
            let parts = self.parts(topic).await?;
            if !parts.is_empty() && parts.iter().enumerate().all(|(at, part)| is(at, part)) {
                return Ok(parts);
            }
            ensure!(Instant::now() < until, "{topic} is not {what}: {parts:?}");
            sleep(LOOK).await;
        }
    }

    /// Returns the partitions of a topic.
    pub async fn parts(&self, topic: &str) -> Result<Vec<Part>> {
        let (asking, topic) = (self.asking()?, topic.to_owned());
        spawn_blocking(move || {
            let told = asking.fetch_metadata(Some(&topic), PATIENCE)?;
            let parts = told.topics().iter().flat_map(|topic| topic.partitions());
            let parts: BTreeMap<i32, Part> = parts
                .map(|it| (it.id(), Part { leader: it.leader(), in_sync: it.isr().to_vec() }))
                .collect();
            Ok(parts.into_values().collect())
        })
        .await?
    }

    /// Reads all of a topic from its beginning; of each partition in its order.
    pub async fn read(&self, topic: &str) -> Result<Vec<Entry>> {
        let (asking, topic) = (self.asking()?, topic.to_owned());
        spawn_blocking(move || read(&asking, &topic)).await?
    }

    /// Waits until the first knows these nodes, and no others.
    async fn knows(&self, nodes: &[i32]) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            NODES.iter().try_for_each(|node| self.node(*node).lives())?;
            let asking = self.asking()?;
            let told = spawn_blocking(move || asking.fetch_metadata(None, Duration::from_secs(5)));
            let told = told.await?.map(|told| {
                let mut ids: Vec<i32> = told.brokers().iter().map(|broker| broker.id()).collect();
                ids.sort_unstable();
                ids
            });
            if told.as_deref().is_ok_and(|ids| ids == nodes) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "the nodes do not find each other: {told:?}");
            sleep(LOOK).await;
        }
    }

    /// Makes a client that asks the first, which is always there.
    fn asking(&self) -> Result<BaseConsumer, KafkaError> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", format!("127.0.0.1:{}", self.node(NODES[0]).ports[0]));
        config.set("group.id", "reader").set("enable.auto.commit", "false").create()
    }

    fn node(&self, node: i32) -> MutexGuard<'_, Instance> {
        let at = NODES.iter().position(|known| *known == node);
        node_of(&self.nodes[at.expect("there are three nodes")])
    }
}

fn node_of(node: &Mutex<Instance>) -> MutexGuard<'_, Instance> {
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(reader: &BaseConsumer, topic: &str) -> Result<Vec<Entry>> {
    let until = Instant::now() + PATIENCE;
    let told = reader.fetch_metadata(Some(topic), PATIENCE)?;
    let parts = told.topics().first().context("the topic")?.partitions();
    let (mut wanted, mut left) = (TopicPartitionList::new(), BTreeMap::new());
    for part in parts {
        let (begin, end) = reader.fetch_watermarks(topic, part.id(), PATIENCE)?;
        wanted.add_partition_offset(topic, part.id(), Offset::Offset(begin))?;
        if end > begin {
            left.insert(part.id(), end);
        }
    }
    reader.assign(&wanted)?;
    let mut entries: BTreeMap<i32, Vec<Entry>> = BTreeMap::new();
    while !left.is_empty() {
        ensure!(Instant::now() < until, "the topic cannot be read: {left:?}");
        // Whatever it says, it asks again by itself.
        let Some(Ok(found)) = reader.poll(LOOK) else { continue };
        left.retain(|part, end| *part != found.partition() || found.offset() + 1 < *end);
        entries.entry(found.partition()).or_default().push(entry(&found)?);
    }
    Ok(entries.into_values().flatten().collect())
}

fn entry(found: &BorrowedMessage<'_>) -> Result<Entry> {
    let text = |bytes: &[u8]| Ok::<_, anyhow::Error>(std::str::from_utf8(bytes)?.to_owned());
    let mut headers = found.headers().into_iter().flat_map(Headers::iter);
    let id = headers.find(|header| header.key == "ce_id").and_then(|header| header.value);
    let place = format!("{}/{}/{}", found.topic(), found.partition(), found.offset());
    let (id, key) = (text(id.unwrap_or_default())?, found.key().map(text).transpose()?);
    Ok(Entry { place, id, key })
}
