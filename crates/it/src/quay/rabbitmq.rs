//! RabbitMQ as the suites need it: an exchange of each test's own, and the server's own tools.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::rabbitmq::{FeedOptions, Options, RabbitMq, RabbitMqFeed, TRAITS};
use broker::traits::Traits;
use event::{EventId, Feed, Secret, Sink};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::time::sleep;
use url::Url;

use super::{Detour, Quay, Stray, WRONG};
use crate::instance::Instance;
use crate::line::Line;
use crate::world::need;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// The user of whom only the server knows the password.
const STRANGER: &str = "stranger";

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// One RabbitMQ, and an exchange that nobody else uses.
pub struct RabbitMqQuay {
    /// Where to connect.
    pub url: String,
    /// Where the management plugin listens.
    pub management: String,
    /// The exchange.
    pub exchange: String,
    /// Where the server lets its own tools in.
    peers: u16,
    instance: Option<Mutex<Instance>>,
}

/// Where nodes of a cluster meet.
pub struct AmongNodes {
    /// The port of the registry of names that stands beside a node.
    pub registry: u16,
    /// Where the node lets others in.
    pub peers: u16,
}

/// Uses the server of the world.
pub async fn shared() -> RabbitMqQuay {
    let server = need("rabbitmq");
    let peers = server.detail("peers").parse().expect("a port");
    RabbitMqQuay {
        url: server.detail("url").to_owned(),
        management: server.detail("management").to_owned(),
        exchange: format!("exchange-{}", EventId::new()),
        peers,
        instance: None,
    }
}

/// Starts a server of its own.
pub async fn own() -> RabbitMqQuay {
    own_with(&[]).await
}

/// Starts a server of its own with further arguments.
pub async fn own_with(more: &[&str]) -> RabbitMqQuay {
    let server = need("rabbitmq");
    let instance = Instance::start_with("rabbitmq", more).expect("a server starts");
    let [_, management, peers, ..] = instance.ports;
    let mut plugin: Url = server.detail("management").parse().expect("an address");
    plugin.set_port(Some(management)).expect("an address has a port");
    let quay = RabbitMqQuay {
        url: instance.url.clone(),
        management: plugin.to_string(),
        exchange: format!("exchange-{}", EventId::new()),
        peers,
        instance: Some(Mutex::new(instance)),
    };
    quay.answers().await.expect("the server answers");
    quay
}

impl RabbitMqQuay {
    /// Makes the options of a sink.
    pub fn options(&self, manner: Manner) -> Options {
        Options {
            url: Secret::new(&*self.url),
            exchange: self.exchange.clone(),
            topic: Naming::default(),
            declare: true,
            manner,
        }
    }

    /// Makes the options of a feed. A queue of dead is read as it is.
    pub fn feed_options(&self, subscription: Subscription) -> FeedOptions {
        let dead = subscription.topics.iter().any(|topic| topic.ends_with(".dead"));
        let exchange = if dead { "" } else { &self.exchange };
        let url = Secret::new(&*self.url);
        FeedOptions { declare: !dead, ..FeedOptions::new(url, exchange, subscription) }
    }

    /// Asks the management plugin. The path begins behind `/api/`.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let base: Url = self.management.parse()?;
        let url = format!("http://127.0.0.1:{}/api/{path}", base.port().context("a port")?);
        // Fails only if a provider is installed already, which then is the one to use.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build()?;
        let mut request = client.request(method, url).basic_auth(base.username(), base.password());
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = request.send().await?.error_for_status()?.bytes().await?;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// Calls a function of the server as its own tools do; returns what it answered.
    pub fn call(&self, function: &str) -> Result<String> {
        let server = need("rabbitmq");
        let mut call = Command::new(server.detail("call"));
        call.args(["-c", server.detail("cookie"), "-address"]);
        call.arg(format!("127.0.0.1:{}", self.peers)).args(["-timeout", "60", "-a", function]);
        let done = call.output()?;
        ensure!(done.status.success(), "{function}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Returns where other nodes find a server of its own.
    pub fn among_nodes(&self) -> Result<AmongNodes> {
        let [_, _, peers, registry, ..] = self.instance()?.ports;
        Ok(AmongNodes { registry, peers })
    }

    /// Waits until it answers.
    async fn answers(&self) -> Result<()> {
        let (until, sink) = (Instant::now() + PATIENCE, RabbitMq::new(self.options(manner())));
        let sink = sink.map_err(anyhow::Error::msg)?;
        while let Err(refusal) = sink.probe().await {
            self.instance()?.lives()?;
            ensure!(Instant::now() < until, "it does not answer: {refusal:?}");
            sleep(LOOK).await;
        }
        sink.close().await;
        Ok(())
    }

    fn instance(&self) -> Result<MutexGuard<'_, Instance>> {
        let own = self.instance.as_ref().context("the world's server is everybody's")?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a user who may do everything, or gives it another password.
    async fn user(&self, name: &str, password: &str) -> Result<()> {
        let body = json!({"password": password, "tags": ""});
        self.ask(Method::PUT, &format!("users/{name}"), Some(body)).await?;
        let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
        self.ask(Method::PUT, &format!("permissions/%2f/{name}"), Some(all)).await.map(drop)
    }

    async fn bent(&self) -> Result<(Line, Url)> {
        let line = Line::open(self.address()?).await?;
        let mut url: Url = self.url.parse()?;
        url.set_port(Some(line.address().port())).ok().context("an address has a port")?;
        Ok((line, url))
    }

    fn sink_at(&self, url: &str, manner: Manner) -> Result<Arc<dyn Sink>> {
        let options = Options { url: Secret::new(url), ..self.options(manner) };
        let sink = RabbitMq::new(options).map_err(anyhow::Error::msg)?;
        let management = Secret::new(&*self.management);
        Ok(Arc::new(sink.with_management(&management).map_err(anyhow::Error::msg)?))
    }
}

fn manner() -> Manner {
    Manner { timeout: Duration::from_secs(5), ..Manner::new("it") }
}

#[async_trait]
impl Quay for RabbitMqQuay {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn address(&self) -> Result<SocketAddr> {
        let url: Url = self.url.parse()?;
        Ok((Ipv4Addr::LOCALHOST, url.port().context("a port")?).into())
    }

    fn lines(&self) -> String {
        let RabbitMqQuay { url, exchange, management, .. } = self;
        format!(
            "kind = \"rabbitmq\"\nurl = \"{url}\"\nexchange = \"{exchange}\"\n\
             management = \"{management}\""
        )
    }

    fn secrets(&self) -> Vec<String> {
        let url: Url = self.url.parse().expect("an address");
        url.password().map(str::to_owned).into_iter().collect()
    }

    /// It confirms, and gives nothing a name.
    fn names(&self) -> bool {
        false
    }

    async fn topic(&self, group: &str) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        self.join(group, &topic).await?;
        Ok(topic)
    }

    async fn join(&self, group: &str, topic: &str) -> Result<()> {
        let options = self.feed_options(Subscription::new(group, &[topic]));
        let feed = RabbitMqFeed::new(options).map_err(anyhow::Error::msg)?;
        feed.declare().await.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_at(&self.url, manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        let options = self.feed_options(subscription);
        Ok(Arc::new(RabbitMqFeed::new(options).map_err(anyhow::Error::msg)?))
    }

    async fn dead(&self, group: &str, topic: &str, _reader: &str) -> Result<Option<String>> {
        Ok(Some(format!("{group}.{topic}.dead")))
    }

    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        let path = format!("exchanges/%2f/{}/publish", self.exchange);
        let encoded = base64(bytes);
        let body = json!({"properties": {}, "routing_key": topic, "payload": encoded,
                          "payload_encoding": "base64"});
        let answer = self.ask(Method::POST, &path, Some(body)).await?;
        ensure!(answer["routed"] == true, "no queue takes it: {answer}");
        Ok(())
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        let mut url: Url = self.url.parse()?;
        url.set_password(Some(WRONG)).ok().context("an address has a password")?;
        self.sink_at(url.as_str(), manner).map(Some)
    }

    async fn strange_feed(&self, subscription: Subscription) -> Result<Option<Stray>> {
        self.user(STRANGER, "as-the-test-says").await?;
        let mut url: Url = self.url.parse()?;
        url.set_username(STRANGER).ok().context("an address has a user")?;
        url.set_password(Some(WRONG)).ok().context("an address has a password")?;
        let options = FeedOptions { url: Secret::new(url), ..self.feed_options(subscription) };
        let feed = RabbitMqFeed::new(options).map_err(anyhow::Error::msg)?;
        Ok(Some((None, Arc::new(feed))))
    }

    async fn admit(&self) -> Result<()> {
        self.user(STRANGER, WRONG).await
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let (line, url) = self.bent().await?;
        let sink = self.sink_at(url.as_str(), manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>> {
        let (line, url) = self.bent().await?;
        let options = FeedOptions { url: Secret::new(url), ..self.feed_options(subscription) };
        Ok(Some((line, Arc::new(RabbitMqFeed::new(options).map_err(anyhow::Error::msg)?))))
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        self.instance()?.pause(paused)
    }

    /// Kills it when it has written down which quorum queues there are. It does so by itself half a
    /// second after one was declared; killed before, it confirms events and forgets them with their
    /// queue.
    async fn kill(&self) -> Result<()> {
        self.call("dets sync [ra_directory_reverse]")?;
        self.instance()?.kill()
    }

    async fn revive(&self) -> Result<()> {
        self.instance()?.revive()?;
        self.answers().await
    }
}

/// Writes bytes as the plugin reads them.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: usize| char::from(LETTERS[bits & 63]);
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).copied().map_or(0, usize::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        text.extend([letter(bits >> 18), letter(bits >> 12)]);
        text.push(if chunk.len() > 1 { letter(bits >> 6) } else { '=' });
        text.push(if chunk.len() > 2 { letter(bits) } else { '=' });
    }
    text
}
