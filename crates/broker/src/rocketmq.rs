//! RocketMQ 5 over gRPC, through its proxy, or its brokers without one; with thin clients of our
//! own. Only SEND_OK is a receipt.
//!
//! It never offers again by itself what may have been taken, and never makes a topic or a group.

mod address;
mod batch;
mod common;
mod feed;
mod inspect;
mod letter;
mod levels;
mod part;
mod refusal;
#[doc(hidden)]
pub mod remoting;
mod sink;
mod stamp;
mod topics;
mod unkept;
mod wire;
mod witness;
mod worth;

use std::sync::Arc;

#[cfg(not(feature = "rocketmq-remoting"))]
use event::Code;
use event::{Cause, Durability, Gauge, Secret, Sink};

pub use self::feed::RocketMqFeed;
#[cfg(feature = "rocketmq-remoting")]
pub use self::remoting::RocketMqRemoting;
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
    levels: &[Gauge::Lag, Gauge::Retry, Gauge::Dead, Gauge::Disk],
};

/// How its brokers differ without a proxy, by which nothing is consumed here.
pub const REMOTING_TRAITS: Traits = Traits { kind: "rocketmq+remoting", ..TRAITS };

/// How a topic was made, which a proxy checks.
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

/// Where a proxy is, or where name servers are, and how to be let in.
#[derive(Clone, Debug)]
pub struct Access {
    /// `rocketmq://HOST:PORT,HOST:PORT` or `rocketmq+tls://…`; behind it `?nameserver=HOST:PORT`,
    /// if the settings of brokers shall be looked at, or `?plain-nameserver=HOST:PORT`, if they
    /// speak no TLS and the proxy does. Without a proxy,
    /// `rocketmq+remoting://HOST:PORT,HOST:PORT` or `rocketmq+remoting+tls://…` of name servers.
    pub url: String,
    /// Access key and secret key.
    pub keys: Option<(String, Secret)>,
}

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// The proxy, or the name servers.
    pub access: Access,
    /// The topic; what RocketMQ does not allow in a name becomes `_`.
    pub topic: Naming,
    /// How the topics were made.
    pub shape: Shape,
    /// What all sinks are told.
    pub manner: Manner,
}

/// Makes the sink that the url asks for. Nothing is connected yet.
pub fn sink(options: Options) -> Result<Arc<dyn Sink>, Cause> {
    if !address::is_remoting(&options.access.url) {
        return Ok(Arc::new(RocketMq::new(options)?));
    }
    #[cfg(feature = "rocketmq-remoting")]
    return Ok(Arc::new(RocketMqRemoting::new(options)?));
    #[cfg(not(feature = "rocketmq-remoting"))]
    Err(Cause::new(
        Code::ConfigInvalid,
        "url: this build publishes through a proxy only; build it with the feature \
         rocketmq-remoting, or write rocketmq://HOST:PORT of a proxy",
    ))
}
