//! NATS JetStream keeps the promises of a sink and of a feed, on the real server.

mod away;
mod facts;
mod foreign;
mod full;
mod lost;
mod only;

use std::time::Duration;

use it::quay::nats::{own, shared};

/// How long a fact may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

it::sink_contract!(shared, own);
it::feed_contract!(shared, own, own);
