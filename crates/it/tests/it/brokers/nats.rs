//! NATS JetStream keeps the promises of a sink and of a feed, on the real server.

mod away;
mod facts;
mod foreign;
mod lost;
mod only;

use it::quay::nats::{own, shared};

it::sink_contract!(shared, own);
it::feed_contract!(shared, own, own);
