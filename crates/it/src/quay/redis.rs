//! Redis as the suites need it: a stream of each test's own, made with its first entry.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::redis::{Options, Redis, RedisFeed, TRAITS, dead_stream};
use broker::traits::Traits;
use event::{EventId, Feed, Secret, Sink};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};

use super::berth::Berth;
use super::{Detour, Quay, Stray, WRONG};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// The word that lets us in.
const PASSWORD: &str = "postbox-of-redis";

/// One Redis.
pub struct RedisQuay {
    /// Where to connect.
    pub url: String,
    address: SocketAddr,
    berth: Berth,
}

/// Uses the server of the world.
pub async fn shared() -> RedisQuay {
    let server = need("redis");
    RedisQuay {
        url: server.detail("url").to_owned(),
        address: server.socket,
        berth: Berth::shared(),
    }
}

/// Starts a server of its own.
pub async fn own() -> RedisQuay {
    own_with(&[]).await
}

/// Starts a server of its own with further settings.
pub async fn own_with(settings: &[&str]) -> RedisQuay {
    let instance = Instance::start_with("redis", settings).expect("a server starts");
    let address = SocketAddr::from(([127, 0, 0, 1], instance.ports[0]));
    let url = instance.url.clone();
    let quay = RedisQuay { url, address, berth: Berth::own(instance) };
    let sink = quay.sink(Berth::asking()).await.expect("the options are right");
    quay.berth.answers(&*sink).await.expect("the server answers");
    quay
}

impl RedisQuay {
    /// Returns a connection of the test's own.
    pub async fn client(&self) -> Result<MultiplexedConnection> {
        Ok(Client::open(self.url.as_str())?.get_multiplexed_async_connection().await?)
    }

    /// Makes a sink by another address, or with another password.
    pub fn sink_by(
        &self,
        address: SocketAddr,
        password: &str,
        manner: Manner,
    ) -> Result<Arc<dyn Sink>> {
        let url = Secret::new(format!("redis://:{password}@{address}/0"));
        let options = Options { url, topic: Naming::default(), manner };
        Ok(Arc::new(Redis::new(options).map_err(anyhow::Error::msg)?))
    }
}

#[async_trait]
impl Quay for RedisQuay {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.address)
    }

    fn lines(&self) -> String {
        format!("kind = \"redis\"\nurl = \"{}\"", self.url)
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }

    async fn topic(&self, _group: &str) -> Result<String> {
        Ok(format!("topic-{}", EventId::new()))
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_by(self.address, PASSWORD, manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        let url = Secret::new(self.url.clone());
        Ok(Arc::new(RedisFeed::new(&url, subscription).map_err(anyhow::Error::msg)?))
    }

    async fn dead(&self, _group: &str, topic: &str, _reader: &str) -> Result<Option<String>> {
        Ok(Some(dead_stream(topic)))
    }

    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        let mut adding = cmd("XADD");
        adding.arg(topic).arg("*").arg("body").arg(bytes);
        adding.query_async::<String>(&mut self.client().await?).await?;
        Ok(())
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        self.sink_by(self.address, WRONG, manner).map(Some)
    }

    async fn strange_feed(&self, subscription: Subscription) -> Result<Option<Stray>> {
        let url = Secret::new(format!("redis://:{WRONG}@{}/0", self.address));
        let feed = RedisFeed::new(&url, subscription).map_err(anyhow::Error::msg)?;
        Ok(Some((None, Arc::new(feed))))
    }

    async fn admit(&self) -> Result<()> {
        let mut letting = cmd("ACL");
        letting.arg("SETUSER").arg("default").arg(format!(">{WRONG}"));
        Ok(letting.query_async::<()>(&mut self.client().await?).await?)
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.address).await?;
        let sink = self.sink_by(line.address(), PASSWORD, manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>> {
        let line = Line::open(self.address).await?;
        let url = Secret::new(format!("redis://:{PASSWORD}@{}/0", line.address()));
        let feed = RedisFeed::new(&url, subscription).map_err(anyhow::Error::msg)?;
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
