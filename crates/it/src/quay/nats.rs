//! NATS as the suites need it: a stream of each test's own, which takes its dead too.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::nats::{Access, Nats, NatsFeed, Options, TRAITS, dead_subject};
use broker::traits::Traits;
use event::{EventId, Feed, Secret, Sink};

use super::berth::Berth;
use super::{Detour, Quay, Stray, WRONG};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// The words that let us in.
const PASSWORD: &str = "postbox-of-nats";

/// Our user, as the settings of the server have it.
const USER: &str = "{ user: postbox, password: postbox-of-nats }";

/// One NATS.
pub struct NatsQuay {
    /// Where to connect.
    pub url: String,
    address: SocketAddr,
    berth: Berth,
}

/// Uses the server of the world.
pub async fn shared() -> NatsQuay {
    let server = need("nats");
    NatsQuay {
        url: server.detail("url").to_owned(),
        address: server.socket,
        berth: Berth::shared(),
    }
}

/// Starts a server of its own.
pub async fn own() -> NatsQuay {
    let instance = Instance::start("nats").expect("a server starts");
    let address = SocketAddr::from(([127, 0, 0, 1], instance.ports[0]));
    let url = instance.url.clone();
    let quay = NatsQuay { url, address, berth: Berth::own(instance) };
    let sink = quay.sink(Berth::asking()).await.expect("the options are right");
    quay.berth.answers(&*sink).await.expect("the server answers");
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

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.address)
    }

    fn lines(&self) -> String {
        format!("kind = \"nats\"\nurl = \"{}\"", self.url)
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

    async fn strange_feed(&self, subscription: Subscription) -> Result<Option<Stray>> {
        let access = self.access(self.address, WRONG);
        let feed = NatsFeed::new(&access, subscription).map_err(anyhow::Error::msg)?;
        Ok(Some((None, Arc::new(feed))))
    }

    /// Puts the password into the settings, which have one for each user.
    async fn admit(&self) -> Result<()> {
        let instance = self.berth.instance()?;
        let file = instance.data().join("config");
        let settings = fs::read_to_string(&file)?;
        ensure!(settings.contains(USER), "the settings do not name our user");
        fs::write(&file, settings.replace(USER, &USER.replace(PASSWORD, WRONG)))?;
        instance.reread()
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.address).await?;
        let sink = self.sink_by(self.access(line.address(), PASSWORD), manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>> {
        let line = Line::open(self.address).await?;
        let access = self.access(line.address(), PASSWORD);
        let feed = NatsFeed::new(&access, subscription).map_err(anyhow::Error::msg)?;
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
