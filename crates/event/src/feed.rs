//! The consuming side of a broker: events as they come to one group.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Cause, Event, Refusal};

/// A feed's own number for what it has handed out and nobody has ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// One event as it came to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The event, or why what came is none.
    pub event: Result<Event, Cause>,
    /// The broker's own name for where it came from, and its place there, for a person.
    pub origin: String,
    /// How often it has been handed out, this time included. 1 where the broker does not count.
    pub attempt: u32,
    /// What ends it.
    pub handle: Handle,
}

/// What becomes of a delivery that was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nack {
    /// Hand it out again after a while.
    Again(Duration),
    /// Hand it out no more: put it where the broker keeps what was given up.
    Dead(Cause),
}

/// Where deliveries come from: one group's view of some topics.
///
/// Of one key, a feed that keeps order hands out no later event before the earlier one is ended.
/// Whatever is not ended when the feed goes is handed out again, by this broker's own rules.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Waits for the next event, at most so long.
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal>;
    /// It was taken in: the broker may forget it. Called only after the consumer's own commit.
    /// To end a delivery that the broker has given to somebody else meanwhile is an error or
    /// nothing, never the end of the other's.
    async fn ack(&self, handle: Handle) -> Result<(), Refusal>;
    /// It was not taken in.
    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal>;
    /// It is still worked on: nobody else shall get it for so long from now.
    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal>;
    /// Leaves the group. What was not ended comes again.
    async fn close(&self) {}
}
