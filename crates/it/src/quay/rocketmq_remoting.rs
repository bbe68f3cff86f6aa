//! RocketMQ without a proxy on the way of events: they go to the broker itself. What is consumed
//! comes through the proxy all the same, where there is one.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use broker::manner::{Manner, Subscription};
use broker::rocketmq::remoting::{Desk, Silence, frame, read};
use broker::rocketmq::{Access, Options, REMOTING_TRAITS, Shape};
use broker::traits::Traits;
use event::{Feed, Secret, Sink};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::rocketmq::{self, RocketMqQuay};
use super::{Detour, Quay, WRONG};
use crate::line::Line;

/// One RocketMQ.
pub struct RemotingQuay {
    /// The same server, with its proxy if it has one.
    pub whole: RocketMqQuay,
    /// Name servers that lead elsewhere, which live as long as this.
    signposts: std::sync::Mutex<Vec<AbortOnDropHandle<()>>>,
}

/// Uses the server of the world.
pub async fn shared() -> RemotingQuay {
    RemotingQuay::new(rocketmq::shared().await)
}

/// Starts a server of its own.
pub async fn own() -> RemotingQuay {
    RemotingQuay::new(rocketmq::own().await)
}

/// Starts a server of its own that lets nobody in without a key.
pub async fn guarded() -> RemotingQuay {
    RemotingQuay::new(rocketmq::guarded().await)
}

/// Starts a server of its own with other settings, as [`rocketmq::own_with`] does.
pub async fn own_with(settings: &[&str]) -> RemotingQuay {
    RemotingQuay::new(rocketmq::own_with(settings, None).await)
}

impl RemotingQuay {
    pub(super) fn new(whole: RocketMqQuay) -> RemotingQuay {
        RemotingQuay { whole, signposts: std::sync::Mutex::default() }
    }

    /// Returns the url of a sink.
    pub fn url(&self) -> String {
        format!("rocketmq+remoting://{}", self.whole.names.address)
    }

    /// Makes the options of a sink.
    pub fn options(&self, manner: Manner, shape: Shape) -> Options {
        let access = Access { url: self.url(), keys: self.whole.access.keys.clone() };
        Options { access, ..self.whole.options(manner, shape) }
    }

    fn sink_with(&self, access: Access, manner: Manner) -> Result<Arc<dyn Sink>> {
        let options = Options { access, ..self.options(manner, Shape::Fifo) };
        broker::rocketmq::sink(options).map_err(anyhow::Error::msg)
    }

    /// Opens a name server that tells another address for the broker; returns its own.
    async fn signpost(&self, to: String) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (names, from) = (self.whole.names.clone(), self.whole.broker.address.clone());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (names, from, to) = (names.clone(), from.clone(), to.clone());
                // Whoever breaks off is not asked why.
                tokio::spawn(async move { point(stream, &names, &from, &to).await.ok() });
            }
        });
        let serving = AbortOnDropHandle::new(serving);
        self.signposts.lock().map_err(|_| anyhow::anyhow!("a test panicked"))?.push(serving);
        Ok(address)
    }
}

/// Asks the real name server, and writes another address into its answer.
async fn point(mut stream: TcpStream, names: &Desk, from: &str, to: &str) -> Result<()> {
    loop {
        let mut asked = vec![0; stream.read_u32().await? as usize];
        stream.read_exact(&mut asked).await?;
        let (header, body) = read(&asked).context("a frame")?;
        let code = header["code"].as_i64().context("a code")?;
        let fields = header["extFields"].as_object().cloned().unwrap_or_default();
        let own =
            |(name, _): &(&String, &Value)| !["AccessKey", "Signature"].contains(&name.as_str());
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .filter(own)
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
            .collect();
        let (code, remark, body) = match names.ask(code.try_into()?, &fields, &body).await {
            Ok(body) => (0, String::new(), String::from_utf8(body)?.replace(from, to)),
            Err(Silence::Refused { code, remark }) => (code, remark, String::new()),
            Err(silence) => return Err(silence.into()),
        };
        let told = json!({
            "code": code, "remark": remark, "opaque": header["opaque"], "flag": 1,
        });
        stream.write_all(&frame(told.to_string().as_bytes(), body.as_bytes())).await?;
    }
}

#[async_trait]
impl Quay for RemotingQuay {
    fn traits(&self) -> Traits {
        REMOTING_TRAITS
    }

    /// Returns where its name server listens.
    fn address(&self) -> Result<SocketAddr> {
        Ok(self.whole.names.address.parse()?)
    }

    fn lines(&self) -> String {
        format!("kind = \"rocketmq\"\nurl = \"{}\"", self.url())
    }

    fn secrets(&self) -> Vec<String> {
        self.whole.secrets()
    }

    async fn topic(&self, group: &str) -> Result<String> {
        self.whole.topic(group).await
    }

    async fn join(&self, group: &str, topic: &str) -> Result<()> {
        self.whole.join(group, topic).await
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_with(self.options(manner.clone(), Shape::Fifo).access, manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        self.whole.feed(subscription).await
    }

    async fn dead(&self, group: &str, topic: &str, reader: &str) -> Result<Option<String>> {
        self.whole.dead(group, topic, reader).await
    }

    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        self.whole.foreign(topic, bytes).await
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        let Some((user, _)) = self.whole.access.keys.clone() else { return Ok(None) };
        let keys = Some((user, Secret::new(WRONG)));
        self.sink_with(Access { url: self.url(), keys }, manner).map(Some)
    }

    /// Only the broker is behind the line; a name server leads there.
    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.whole.broker.address.parse()?).await?;
        let names = self.signpost(line.address().to_string()).await?;
        let url = format!("rocketmq+remoting://{names}");
        let keys = self.whole.access.keys.clone();
        let sink = self.sink_with(Access { url, keys }, manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>> {
        self.whole.feed_detour(subscription).await
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        self.whole.pause(paused).await
    }

    async fn kill(&self) -> Result<()> {
        self.whole.kill().await
    }

    async fn revive(&self) -> Result<()> {
        self.whole.revive().await
    }
}
