//! Redis as the suites need it: a stream of each test's own, made with its first entry.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::redis::{Options, Redis, RedisFeed, TRAITS, dead_stream};
use broker::traits::Traits;
use event::{EventId, Feed, Secret, Sink};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use tokio::time::sleep;

use super::{Quay, WRONG};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The word that lets us in.
const PASSWORD: &str = "postbox-of-redis";

/// One Redis.
pub struct RedisQuay {
    /// Where to connect.
    pub url: String,
    address: SocketAddr,
    instance: Option<Mutex<Instance>>,
}

/// Uses the server of the world.
pub async fn shared() -> RedisQuay {
    let server = need("redis");
    RedisQuay { url: server.detail("url").to_owned(), address: server.socket, instance: None }
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
    let quay = RedisQuay { url, address, instance: Some(Mutex::new(instance)) };
    quay.answers().await.expect("the server answers");
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

    async fn answers(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let manner = Manner { timeout: Duration::from_secs(2), ..Manner::new("it") };
        let sink = self.sink_by(self.address, PASSWORD, manner)?;
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

#[async_trait]
impl Quay for RedisQuay {
    fn traits(&self) -> Traits {
        TRAITS
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

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.address).await?;
        let sink = self.sink_by(line.address(), PASSWORD, manner)?;
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
