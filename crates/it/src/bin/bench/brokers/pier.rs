//! What a broker is measured at: topics, our sink, and a bare loop of the same client library.

use std::process::Command;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use event::Sink;
use futures_util::future::BoxFuture;

use super::letter::Letter;

/// How many events of a bare loop are out at once where the client library does not say: as many as
/// our sinks have at the most, unless told otherwise.
pub(super) const AT_ONCE: usize = 256;

/// A loop that is about to publish, and ends when all is acknowledged.
pub(super) type Loop = BoxFuture<'static, Result<()>>;

#[async_trait]
pub(super) trait Pier: Send + Sync {
    /// Says what the bare loop does.
    fn bare_loop(&self) -> &'static str;
    /// Makes a topic that nothing was published to.
    async fn topic(&self) -> Result<String>;
    /// Makes the sink of the relay, with the usual manner.
    async fn sink(&self) -> Result<Arc<dyn Sink>>;
    /// Connects, and prepares the bare loop.
    async fn bare(&self, topic: &str, letters: Vec<Letter>) -> Result<Loop>;
    /// Returns what starts a producer in Java, where there is one.
    fn java(&self, _topic: &str, _warm: &str, _events: usize) -> Option<Command> {
        None
    }
    /// Counts the events of a topic at the broker.
    async fn count(&self, topic: &str) -> Result<usize>;
    /// Gives back what a topic takes, where that costs nobody anything later.
    async fn clear(&self, _topic: &str) -> Result<()> {
        Ok(())
    }
}
