//! NATS as the suites need it: a stream of each test's own, which takes its dead too.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::nats::{Access, Nats, NatsFeed, Options, TRAITS, dead_subject};
use broker::traits::Traits;
use event::{EventId, Feed, Secret, Sink};
use tokio::time::sleep;

use super::{Quay, WRONG};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The words that let us in.
const PASSWORD: &str = "postbox-of-nats";

/// One NATS.
pub struct NatsQuay {
    /// Where to connect.
    pub url: String,
    address: SocketAddr,
    instance: Option<Mutex<Instance>>,
}

/// Uses the server of the world.
pub async fn shared() -> NatsQuay {
    let server = need("nats");
    NatsQuay { url: server.detail("url").to_owned(), address: server.socket, instance: None }
}

/// Starts a server of its own.
pub async fn own() -> NatsQuay {
    let instance = Instance::start("nats").expect("a server starts");
    let address = SocketAddr::from(([127, 0, 0, 1], instance.ports[0]));
    let url = instance.url.clone();
    let quay = NatsQuay { url, address, instance: Some(Mutex::new(instance)) };
    quay.answers().await.expect("the server answers");
    quay
}

impl NatsQuay {
    /// Returns JetStream by a connection of the test's own.
    pub async fn jetstream(&self) -> Result<jetstream::Context> {
        let (_, rest) = self.url.split_once("://").context("an address")?;
        let (user, _) = rest.split_once('@').context("a user")?;
        let (user, password) = user.split_once(':').context("a password")?;
        let options = async_nats::ConnectOptions::new()
            .user_and_password(user.to_owned(), password.to_owned());
        Ok(jetstream::new(options.connect(self.address.to_string()).await?))
    }

    /// Makes a stream that takes a topic and its dead; returns the topic. Its name is `stream_of`.
    pub async fn make(&self, change: impl FnOnce(&mut Config)) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        let subjects = vec![topic.clone(), dead_subject(&topic)];
        let mut config = Config { name: stream_of(&topic), subjects, ..Config::default() };
        change(&mut config);
        self.jetstream().await?.create_stream(config).await?;
        Ok(topic)
    }

    /// Returns the way in by another address, or with another password.
    pub fn access(&self, address: SocketAddr, password: &str) -> Access {
        let url = Secret::new(format!("nats://postbox:{password}@{address}"));
        Access { url, token: None, credentials: None }
    }

    /// Makes the options of a sink.
    pub fn options(&self, access: Access, manner: Manner) -> Options {
        Options { access, topic: Naming::default(), stream: None, manner }
    }

    fn sink_by(&self, access: Access, manner: Manner) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Nats::new(self.options(access, manner)).map_err(anyhow::Error::msg)?))
    }

    async fn answers(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let manner = Manner { timeout: Duration::from_secs(2), ..Manner::new("it") };
        let sink = self.sink_by(self.access(self.address, PASSWORD), manner)?;
        while let Err(refusal) = sink.probe().await {
            self.instance()?.lives()?;
            ensure!(Instant::now() < until, "it does not answer: {refusal:?}");
            sleep(LOOK).await;
        }
        Ok(())
    }

    fn instance(&self) -> Result<MutexGuard<'_, Instance>> {
        let own = self.instance.as_ref().context("the world's server is everybody's")?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the name of the stream that takes a topic.
pub fn stream_of(topic: &str) -> String {
    topic.replace('.', "_")
}

#[async_trait]
impl Quay for NatsQuay {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }

    async fn topic(&self, _group: &str) -> Result<String> {
        self.make(|_| {}).await
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_by(self.access(self.address, PASSWORD), manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        let access = self.access(self.address, PASSWORD);
        Ok(Arc::new(NatsFeed::new(&access, subscription).map_err(anyhow::Error::msg)?))
    }

    async fn dead(&self, _group: &str, topic: &str, _reader: &str) -> Result<Option<String>> {
        Ok(Some(dead_subject(topic)))
    }

    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        let jetstream = self.jetstream().await?;
        jetstream.publish(topic.to_owned(), bytes.to_vec().into()).await?.await?;
        Ok(())
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        self.sink_by(self.access(self.address, WRONG), manner).map(Some)
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.address).await?;
        let sink = self.sink_by(self.access(line.address(), PASSWORD), manner)?;
        Ok((line, sink))
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        self.instance()?.pause(paused)
    }

    async fn restart(&self) -> Result<()> {
        {
            let mut instance = self.instance()?;
            instance.kill()?;
            instance.revive()?;
        }
        self.answers().await
    }
}
