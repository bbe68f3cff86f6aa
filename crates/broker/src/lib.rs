//! The only room that knows brokers: one file and one feature each, behind the seams `Sink` and
//! `Feed`.
//!
//! A sink offers events and says honestly what it knows: a receipt, a refusal, or that it cannot
//! know. It never tries again by itself, never judges, and never sees a store. A feed hands out
//! what came, and forgets nothing before it is told to.

pub mod gate;
#[cfg(any(feature = "nats", feature = "redis"))]
mod hand;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod keyed;
#[cfg(any(
    feature = "kafka",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis",
    feature = "rocketmq"
))]
mod leads;
#[cfg(any(feature = "kafka", feature = "redis"))]
mod least;
#[cfg(any(feature = "nats", feature = "redis"))]
mod lines;
pub mod manner;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(feature = "http", feature = "nats", feature = "rocketmq"))]
mod percent;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "rocketmq")]
pub mod rocketmq;
#[cfg(any(feature = "http", feature = "kafka", feature = "rocketmq"))]
mod roots;
#[cfg(any(feature = "kafka", feature = "nats", feature = "redis", feature = "rocketmq"))]
mod rounds;
#[cfg(any(feature = "nats", feature = "redis"))]
mod seen;
#[cfg(feature = "stdout")]
pub mod stdout;
pub mod traits;
#[cfg(any(feature = "kafka", feature = "rocketmq"))]
mod trust;
#[cfg(any(feature = "rabbitmq", feature = "redis"))]
mod waves;
pub mod webhook;
pub mod width;
