//! The seams: what one room asks of another, without seeing it.

use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::{
    Answer, Cause, Claim, Counts, Durability, Event, EventId, Fence, Filter, Inspection, Listing,
    Millis, Page, Refusal, Requeued, Settled, Settlement,
};

/// Why a store did not answer. Each variant is a different reaction.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// It may answer later: wait and ask again.
    #[error("{0}")]
    Down(Cause),
    /// Asking again cannot help: stop, and tell a person.
    #[error("{0}")]
    Broken(Cause),
}

impl StoreError {
    /// Returns the cause.
    pub fn cause(&self) -> &Cause {
        match self {
            StoreError::Down(cause) | StoreError::Broken(cause) => cause,
        }
    }
}

/// How much a claim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Events at the most.
    pub limit: usize,
    /// Bytes of payload at the most; one event always fits.
    pub bytes: usize,
    /// How long the claim lasts, by the database's clock.
    pub lease: Duration,
}

impl Want {
    /// Returns how much of a claim may be retries: half of the rows and of the bytes, so that
    /// neither a failing backlog starves fresh events nor the other way round. Where half is too
    /// little for one, [`Turns`](crate::Turns) lets the shelves take turns.
    pub fn retries(&self) -> (usize, usize) {
        (self.limit.div_ceil(2), self.bytes / 2)
    }
}

/// What a source tells beside what it hands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// Whether the last claim got nothing because another relay holds what waits.
    pub stands_by: bool,
    /// Rows that claims had chosen and another relay was quicker to claim, since this was asked.
    pub outrun: u64,
}

/// Where claims come from: one lane's view of one outbox.
#[async_trait]
pub trait Source: Send + Sync {
    /// Hands out due rows, in order per key, each to one holder until the lease runs out.
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError>;
    /// Writes outcomes down. A claim that is no longer the newest is stale and changes nothing.
    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError>;
    /// Returns when something may be due, or after `at_most`. It keeps what this lane leases.
    async fn wait(&self, at_most: Duration);
    /// Hands over what this lane leases, so that another relay need not wait for it to run out.
    async fn release(&self) -> Result<(), StoreError>;
    /// Tells what the claims do not, once.
    fn aside(&self) -> Aside {
        Aside::default()
    }
}

/// Where events go.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Offers events, in order per key, and answers for each at its place. What was not offered is
    /// `Held` (its key's earlier event was refused, time ran short, or the relay stops), or `Down`
    /// with the rest.
    async fn publish(&self, events: &[Event]) -> Vec<Answer>;
    /// Asks whether the destination can be reached, without an event.
    async fn probe(&self) -> Result<(), Refusal>;
    /// Asks what its receipts are worth, what its settings risk and how full it is. Asked at the
    /// start, by the doctor and now and then; never in a turn.
    async fn inspect(&self) -> Result<Inspection, Refusal> {
        Ok(Inspection::of(Durability::BestEffort))
    }
    /// Asks only what its receipts are worth and what its settings risk: soon, however many topics
    /// it has. Asked by who must know before anything is published.
    async fn worth(&self) -> Result<Inspection, Refusal> {
        self.inspect().await
    }
    /// Ends connections.
    async fn close(&self) {}
}

/// What a consumer may do with an event that came to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Work; finish with this fence.
    Go(Fence),
    /// Another holder works on it until then: wait, do not work.
    Busy {
        /// When its lease runs out.
        until: Millis,
    },
    /// It was taken in before: acknowledge, do nothing.
    Done,
}

/// How the work on an event that came ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxEnd {
    /// It was processed.
    Processed,
    /// It failed and may be tried again.
    Failed(Cause),
}

/// The memory of a consumer group: each event is taken in once.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Asks to work on an event.
    async fn begin(&self, group: &str, id: EventId, lease: Duration) -> Result<Begun, StoreError>;
    /// Ends the work. Returns `false`, and changes nothing, when the fence is not the newest.
    async fn finish(
        &self,
        group: &str,
        id: EventId,
        fence: Fence,
        end: InboxEnd,
    ) -> Result<bool, StoreError>;
}

/// The rows as a person sees them.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Lists events, newest first.
    async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError>;
    /// Counts events by status.
    async fn count(&self) -> Result<Counts, StoreError>;
    /// Gives dead events a new life: those named, and at most `limit` that the filter finds.
    async fn requeue(
        &self,
        ids: &[EventId],
        filter: Option<&Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError>;
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// History of what was published.
    pub sent: Duration,
    /// Memory of what was taken in; longer than a duplicate can take to arrive.
    pub inbox: Duration,
    /// Rows at the most in one step.
    pub step: usize,
    /// How long a holder of the chores may be silent.
    pub lease: Duration,
}

/// What a step of the chores did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Rows of history trimmed; of a day that went at once, as many as were counted.
    pub sent: u64,
    /// Rows of inbox memory trimmed.
    pub inbox: u64,
    /// Whether another relay holds the chores.
    pub elsewhere: bool,
}

/// Upkeep of a store, one holder at a time. Dead rows are never touched.
#[async_trait]
pub trait Chores: Send + Sync {
    /// Does one small step.
    async fn sweep(&self, keep: &Keep) -> Result<Swept, StoreError>;
}

/// Paces loops. It never judges a lease: that is the database's clock.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns this machine's moment.
    fn now(&self) -> Millis;
    /// Waits.
    async fn sleep(&self, duration: Duration);
}
