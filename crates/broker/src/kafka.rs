//! Kafka: idempotent, acknowledged by all replicas in sync, key to partition.
//!
//! A receipt is an offset that the broker gave. Transactions are not used: what makes an event's
//! effect happen once is the consumer's inbox.

mod access;
mod batch;
mod desk;
mod disk;
mod feed;
mod kept;
mod lag;
mod letter;
mod live;
mod look;
mod marks;
mod pace;
#[cfg(test)]
mod paced;
mod part;
mod refusal;
mod shape;
mod sink;
mod slots;
mod told;
mod topics;
mod watch;
mod wire;

use event::{Durability, Gauge, Secret};

use crate::manner::{Manner, Naming};
use crate::traits::Traits;

pub use self::feed::KafkaFeed;
pub use self::sink::Kafka;

/// How Kafka differs.
pub const TRAITS: Traits = Traits {
    kind: "kafka",
    durability: Durability::Replicated,
    keeps: true,
    largest: 1_000_000,
    dedupes: false,
    knows_topics: true,
    ordered: true,
    counts: false,
    leases: false,
    levels: &[Gauge::Lag, Gauge::Dead, Gauge::Disk],
};

/// Where a cluster is, and how to be let in.
#[derive(Clone, Debug)]
pub struct Access {
    /// `kafka://HOST:PORT,HOST:PORT`. Without TLS, and so without SCRAM: the client library knows
    /// only OpenSSL's, which is not built in.
    pub url: String,
    /// User and password, shown with the mechanism `PLAIN`.
    pub user: Option<(String, Secret)>,
}

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub access: Access,
    /// The topic.
    pub topic: Naming,
    /// `none`, `gzip`, `snappy` or `lz4`.
    pub compression: String,
    /// What all sinks are told.
    pub manner: Manner,
}
