//! Three servers of NATS, and streams of three replicas.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::ConnectOptions;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, stream};
use async_trait::async_trait;
use broker::manner::{Manner, Naming, Subscription};
use broker::nats::{Access, Nats, NatsFeed, Options, dead_subject};
use event::{EventId, Feed, Secret, Sink};
use tokio::time::sleep;

use super::{LEADS, Three};
use crate::instance::Instance;
use crate::quay::nats::stream_of;

/// How long servers may take to find each other.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Starts a server of a cluster. The first finds the others by itself; they look for the first.
pub fn nats_member(name: &str, first: Option<&Instance>) -> Result<Instance> {
    let port = first.map_or("{port2}".to_owned(), |first| first.ports[1].to_string());
    let routes = format!("nats://127.0.0.1:{port}");
    let cluster = ["--cluster_name", "three", "--cluster", "nats://127.0.0.1:{port2}"];
    let own = ["--name", name, "--routes", &routes];
    Instance::start_with("nats", &[&cluster[..], &own].concat())
}

/// Three servers.
pub struct NatsThree {
    members: [(&'static str, Instance); 3],
}

/// Starts three servers.
pub fn nats() -> Result<NatsThree> {
    let first = nats_member("n1", None)?;
    let (second, third) = (nats_member("n2", Some(&first))?, nats_member("n3", Some(&first))?);
    Ok(NatsThree { members: [("n1", first), ("n2", second), ("n3", third)] })
}

impl NatsThree {
    /// Returns the address of all three, with one login.
    fn url(&self) -> String {
        let ports = self.members.each_ref().map(|(_, instance)| instance.ports[0]);
        let others = ports.iter().skip(1).map(|port| format!(",127.0.0.1:{port}"));
        format!("{}{}", self.members[0].1.url, others.collect::<String>())
    }

    fn access(&self) -> Access {
        Access { url: Secret::new(self.url()), token: None, credentials: None }
    }

    async fn make(&self, config: &Config) -> Result<stream::Info> {
        let url = &self.members[0].1.url;
        let (_, rest) = url.split_once("://").context("an address")?;
        let (user, address) = rest.split_once('@').context("a user")?;
        let (user, password) = user.split_once(':').context("a password")?;
        let login = ConnectOptions::with_user_and_password(user.into(), password.into());
        let jetstream = jetstream::new(login.connect(address).await?);
        Ok(jetstream.create_stream(config.clone()).await?.cached_info().clone())
    }
}

#[async_trait]
impl Three for NatsThree {
    fn lines(&self) -> String {
        format!("kind = \"nats\"\nurl = \"{}\"", self.url())
    }

    async fn topic(&mut self, _group: &str) -> Result<String> {
        let (topic, until) = (format!("topic-{}", EventId::new()), Instant::now() + PATIENCE);
        let subjects = vec![topic.clone(), dead_subject(&topic)];
        let name = stream_of(&topic);
        let config = Config { name, subjects, num_replicas: 3, ..Config::default() };
        let leader = loop {
            match self.make(&config).await {
                Ok(info) => break info.cluster.and_then(|cluster| cluster.leader),
                Err(error) => ensure!(Instant::now() < until, "no stream can be made: {error}"),
            }
            sleep(LOOK).await;
        };
        let leads = self.members.iter().position(|(name, _)| leader.as_deref() == Some(name));
        self.members.swap(LEADS, leads.context("a cluster tells who leads")?);
        Ok(topic)
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        let (topic, manner) = (Naming::default(), Manner::new("it"));
        let options = Options { access: self.access(), topic, stream: None, manner };
        Ok(Arc::new(Nats::new(options).map_err(anyhow::Error::msg)?))
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        let feed = NatsFeed::new(&self.access(), subscription).map_err(anyhow::Error::msg)?;
        Ok(Arc::new(feed))
    }

    async fn kill(&mut self, which: usize) -> Result<()> {
        self.members[which].1.kill()
    }

    async fn revive(&mut self, which: usize) -> Result<()> {
        self.members[which].1.revive()
    }
}
