//! Redis Streams keep the promises of a sink and of a feed, on the real server.

mod facts;
mod foreign;
mod only;

use it::quay::redis::{own, shared};

it::sink_contract!(shared, own);
it::feed_contract!(shared, own, own);
