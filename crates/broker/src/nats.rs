//! NATS JetStream: one acknowledged publish per event, with the event id as its message id.

use event::Secret;

use crate::manner::{Manner, Naming};

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
