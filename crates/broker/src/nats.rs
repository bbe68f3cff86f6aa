//! NATS JetStream: one acknowledged publish per event, with the event id as its message id.
//!
//! Events of one key are published one after another: with several of a key under way, a stream at
//! its limit could refuse the first and take the second.

mod absence;
mod feed;
mod inspect;
mod levels;
mod link;
mod refusal;
mod sink;
mod streams;
mod wire;

use event::{Durability, Gauge, Secret};

pub use self::feed::NatsFeed;
pub use self::sink::Nats;
use crate::manner::{Manner, Naming};
use crate::traits::Traits;

/// How NATS JetStream differs. One feed keeps the order of a key; several of a group share a
/// consumer, which hands out whatever comes next to whoever asks.
pub const TRAITS: Traits = Traits {
    kind: "nats",
    durability: Durability::Replicated,
    keeps: true,
    // 1 MiB with the headers, for which room must be left.
    largest: (1 << 20) - (8 << 10),
    dedupes: true,
    knows_topics: true,
    ordered: false,
    counts: true,
    leases: true,
    levels: &[Gauge::Lag, Gauge::Retry, Gauge::Dead, Gauge::Disk],
};

/// Where a cluster is, and how to be let in.
#[derive(Clone, Debug)]
pub struct Access {
    /// `nats://USER:PASSWORD@HOST:PORT,…` or `tls://…`.
    pub url: Secret,
    /// A token.
    pub token: Option<Secret>,
    /// The text of a credentials file.
    pub credentials: Option<Secret>,
}

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub access: Access,
    /// The subject.
    pub topic: Naming,
    /// The stream that must take it; any stream if there is none.
    pub stream: Option<String>,
    /// What all sinks are told.
    pub manner: Manner,
}

/// Returns the subject on which the dead of a subject are kept.
pub fn dead_subject(subject: &str) -> String {
    format!("{subject}.dead")
}
