//! Redis Streams: one entry per event; nothing is ever trimmed.

use event::Secret;

use crate::manner::{Manner, Naming};

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
