//! Three servers of one cluster, each of which can be killed: what a majority of them keeps.

mod nats;
mod rabbitmq;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use broker::manner::Subscription;
use event::{Feed, Sink};

pub use self::nats::{NatsThree, nats, nats_member};
pub use self::rabbitmq::{RabbitMqThree, rabbitmq};

/// Which of the three is always there.
pub const STAYS: usize = 0;
/// Which of the three leads whatever is made.
pub const LEADS: usize = 1;
/// Which of the three follows.
pub const FOLLOWS: usize = 2;

/// One cluster for one test.
#[async_trait]
pub trait Three: Send {
    /// Returns the lines of a relay's sink to it.
    fn lines(&self) -> String;
    /// Makes a topic that all three keep, and whatever a group needs to take from it.
    async fn topic(&mut self, group: &str) -> Result<String>;
    /// Makes a sink.
    async fn sink(&self) -> Result<Arc<dyn Sink>>;
    /// Joins a group. Whatever the group has not ended yet comes, from the first on.
    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>>;
    /// Kills one (SIGKILL); returns when it is gone.
    async fn kill(&mut self, which: usize) -> Result<()>;
    /// Starts a killed one again on what it left.
    async fn revive(&mut self, which: usize) -> Result<()>;
}
