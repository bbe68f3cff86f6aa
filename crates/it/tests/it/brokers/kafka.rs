//! Kafka keeps the promises of a sink and of a feed, on the real broker.

mod cluster;
mod disk;
mod foreign;
mod missing;
mod only;
mod scram;

it::sink_contract!(it::quay::kafka::shared, it::quay::kafka::own);
it::feed_contract!(it::quay::kafka::shared, it::quay::kafka::own, it::quay::kafka::own);
