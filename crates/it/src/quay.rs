//! The quay that a suite of brokers stands on: one real broker, as many sinks and feeds as wanted,
//! and the means to stop, kill and cut it off.

mod berth;
pub mod http;
pub mod kafka;
pub mod kafka_cluster;
pub mod nats;
pub mod rabbitmq;
pub mod redis;
pub mod rocketmq;
pub mod rocketmq_4;
pub mod rocketmq_fleet;
mod rocketmq_pull;
pub mod rocketmq_remoting;
pub mod rocketmq_rights;
pub mod rocketmq_tls;
mod rocketmq_users;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, bail};
use async_trait::async_trait;
use broker::manner::{Manner, Subscription};
use broker::traits::Traits;
use event::{Feed, Sink};

use crate::line::Line;

/// The password (key, secret) of whoever must not be let in. It may stand in no cause.
pub const WRONG: &str = "c4n4ry-of-a-stranger-0123456789";

/// A feed, and the line that it has.
pub type Detour = (Line, Arc<dyn Feed>);

/// A feed, and the line that it has where there is no other way.
pub type Stray = (Option<Line>, Arc<dyn Feed>);

/// One broker for one test: the world's, shared with other tests, or one of its own.
#[async_trait]
pub trait Quay: Send + Sync {
    /// Says how the broker differs.
    fn traits(&self) -> Traits;
    /// Returns where a sink connects to first.
    fn address(&self) -> Result<SocketAddr>;
    /// Returns the lines of a relay's sink to it.
    fn lines(&self) -> String;
    /// Returns the secrets that let us in. They may stand in no cause.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
    /// Tells whether the broker has a name of its own for each event that it takes.
    fn names(&self) -> bool {
        self.traits().keeps
    }
    /// Makes a topic that no other test uses, and whatever a group of that name needs to take from
    /// it. An event of this topic goes there without further naming.
    async fn topic(&self, group: &str) -> Result<String>;
    /// Makes whatever another group needs to take from a topic that is there, from now on.
    async fn join(&self, _group: &str, _topic: &str) -> Result<()> {
        Ok(())
    }
    /// Makes a sink.
    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>>;
    /// Joins a group. Whatever the group has not ended yet comes, from the first on.
    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>>;
    /// Returns the broker's name for where a group's dead of a topic are kept, and makes whatever
    /// another group needs to take from there; `None` where whoever published keeps them.
    async fn dead(&self, group: &str, topic: &str, reader: &str) -> Result<Option<String>>;
    /// Puts bytes that are no event where the events of a topic go, without any envelope.
    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()>;
    /// Makes a sink with the password [`WRONG`], where the broker asks for one.
    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>>;
    /// Joins a group with the password [`WRONG`]; `None` where events are brought to a feed, and so
    /// only those who bring them have a password, or where nobody is asked for one.
    async fn strange_feed(&self, _subscription: Subscription) -> Result<Option<Stray>> {
        Ok(None)
    }
    /// Makes [`WRONG`] the right password of that feed; its broker may be started anew for it. Only
    /// of a broker of one's own.
    async fn admit(&self) -> Result<()> {
        bail!("nobody is kept out")
    }
    /// Makes a sink that reaches the broker only by a line that can be held and cut. Of a broker of
    /// one's own, where it is easier.
    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)>;
    /// Joins a group by such a line; `None` where events are brought to a feed, or it is none of
    /// ours.
    async fn feed_detour(&self, subscription: Subscription) -> Result<Option<Detour>>;
    /// Stops its process in the midst of whatever it does (SIGSTOP), or lets it go on. Only of a
    /// broker of one's own.
    async fn pause(&self, paused: bool) -> Result<()>;
    /// Kills it (SIGKILL); returns when it is gone. Only of a broker of one's own.
    async fn kill(&self) -> Result<()>;
    /// Starts a killed one again on what it left; returns when it answers.
    async fn revive(&self) -> Result<()>;
    /// Kills it and starts it again.
    async fn restart(&self) -> Result<()> {
        self.kill().await?;
        self.revive().await
    }
}
