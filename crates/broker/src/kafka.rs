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
mod scram;
mod shape;
mod sink;
mod slots;
mod told;
mod topics;
mod watch;
mod way;
mod why;
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
    /// `kafka://HOST:PORT,HOST:PORT`, or `kafka+tls://…`, with the CAs of the machine.
    pub url: String,
    /// User and password.
    pub user: Option<(String, Secret)>,
    /// How the password is shown.
    pub mechanism: Mechanism,
}

impl Access {
    /// Returns the way into a cluster that asks for nobody's name.
    pub fn open(url: &str) -> Access {
        Access { url: url.to_owned(), user: None, mechanism: Mechanism::default() }
    }
}

/// How a password is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// `PLAIN`: as it is.
    #[default]
    Plain,
    /// `SCRAM-SHA-256`: it never leaves.
    ScramSha256,
    /// `SCRAM-SHA-512`: it never leaves.
    ScramSha512,
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
