//! The quay that a suite of brokers stands on: one real broker, as many sinks and feeds as wanted,
//! and the means to stop, kill and cut it off.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use broker::manner::{Manner, Subscription};
use broker::traits::Traits;
use event::{Feed, Sink};

/// One broker for one test: the world's, shared with other tests, or one of its own.
#[async_trait]
pub trait Quay: Send + Sync {
    /// Says how the broker differs.
    fn traits(&self) -> Traits;
    /// Makes a topic that no other test uses, and whatever a group of that name needs to take from
    /// it. An event of this topic goes there without further naming.
    async fn topic(&self, group: &str) -> Result<String>;
    /// Makes a sink.
    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>>;
    /// Joins a group.
    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>>;
    /// Makes a sink with a wrong password, where the broker asks for one.
    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>>;
    /// Makes a sink that reaches the broker at another address, where something stands in between
    /// that carries on to [`address`](Quay::address).
    async fn detour(&self, manner: Manner, by: SocketAddr) -> Result<Arc<dyn Sink>>;
    /// Returns where the broker listens.
    fn address(&self) -> SocketAddr;
    /// Stops its process in the midst of whatever it does (SIGSTOP), or lets it go on. Only of a
    /// broker of one's own.
    fn pause(&self, paused: bool) -> Result<()>;
    /// Kills it (SIGKILL) and starts it again on what it left; returns when it answers. Only of a
    /// broker of one's own.
    async fn restart(&self) -> Result<()>;
}
