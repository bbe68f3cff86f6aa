//! Every broker keeps the promises of a sink and of a feed, on the real thing, and its own.

mod brake;
mod http;
mod journey;
mod kafka;
mod majority;
mod nats;
mod outage;
mod rabbitmq;
mod redis;
mod rocketmq;
mod rocketmq_4;
mod rocketmq_fleet;
mod rocketmq_remoting;
mod tls;
