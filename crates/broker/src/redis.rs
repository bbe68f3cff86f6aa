//! Redis Streams: one entry per event; nothing is ever trimmed.
//!
//! Events of different keys are added in pipelines, those of one key one after another: with
//! several of a key under way, a server at its limit could refuse the first and take the second.

mod entry;
mod feed;
mod inspect;
mod link;
mod pace;
mod refusal;
mod sink;
mod streams;

use event::{Durability, Gauge, Secret};

pub use self::feed::RedisFeed;
pub use self::sink::Redis;
use crate::manner::{Manner, Naming};
use crate::traits::Traits;

/// How Redis Streams differ. Replication is never waited for, so a receipt is one machine's word.
/// One feed keeps the order of a key; several of a group get whatever comes next.
pub const TRAITS: Traits = Traits {
    kind: "redis",
    durability: Durability::Durable,
    keeps: true,
    largest: 512 << 20,
    dedupes: false,
    knows_topics: false,
    ordered: false,
    counts: true,
    leases: true,
    levels: &[Gauge::Lag, Gauge::Dead, Gauge::Disk],
};

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// `redis://USER:PASSWORD@HOST:PORT/DATABASE` or `rediss://…`.
    pub url: Secret,
    /// The stream.
    pub topic: Naming,
    /// What all sinks are told.
    pub manner: Manner,
}

/// What is added to the name of a stream to name the place of its dead.
const DEAD: &str = ".dead";

/// Returns the stream in which the dead of a stream are kept.
pub fn dead_stream(stream: &str) -> String {
    format!("{stream}{DEAD}")
}
