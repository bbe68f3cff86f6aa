//! Kafka: idempotent, acknowledged by all replicas, key to partition.

use event::Secret;

use crate::manner::{Manner, Naming};

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
