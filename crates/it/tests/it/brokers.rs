//! Every broker keeps the promises of a sink and of a feed, on the real thing, and what only it has.

mod http;
mod kafka;
mod nats;
mod rabbitmq;
mod redis;
mod rocketmq;
