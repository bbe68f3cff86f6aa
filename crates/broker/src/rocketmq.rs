//! RocketMQ 5 over gRPC, through its proxy, with a thin client of our own. Only SEND_OK is a
//! receipt.
//!
//! It never tries again by itself, and never makes a topic or a group.

mod address;
mod batch;
mod feed;
mod inspect;
mod letter;
mod levels;
mod refusal;
#[doc(hidden)]
pub mod remoting;
mod sink;
mod stamp;
mod topics;
mod wire;
mod witness;

use event::{Durability, Gauge, Secret};

pub use self::feed::RocketMqFeed;
pub use self::sink::RocketMq;
#[doc(hidden)]
pub use self::wire::v2;
use crate::manner::{Manner, Naming};
use crate::traits::Traits;

/// How it differs from others.
pub const TRAITS: Traits = Traits {
    kind: "rocketmq",
    durability: Durability::Replicated,
    keeps: true,
    largest: 4 << 20,
    dedupes: false,
    knows_topics: true,
    ordered: true,
    counts: true,
    leases: true,
    levels: &[Gauge::Lag, Gauge::Dead, Gauge::Disk],
};

/// How a topic was made, which its broker checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// `FIFO`: order per key; the key is the message group.
    #[default]
    Fifo,
    /// `NORMAL`: no order.
    Normal,
    /// `DELAY`: handed out at the moment that the header `deliver-at` names.
    Delay,
}

/// Where a proxy is, and how to be let in.
#[derive(Clone, Debug)]
pub struct Access {
    /// `rocketmq://HOST:PORT,HOST:PORT` or `rocketmq+tls://…`; behind it `?nameserver=HOST:PORT`,
    /// if the settings of brokers shall be looked at.
    pub url: String,
    /// Access key and secret key.
    pub keys: Option<(String, Secret)>,
}

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// The proxy.
    pub access: Access,
    /// The topic; what RocketMQ does not allow in a name becomes `_`.
    pub topic: Naming,
    /// How the topics were made.
    pub shape: Shape,
    /// What all sinks are told.
    pub manner: Manner,
}
