//! RocketMQ 5 over gRPC, through its proxy. Only SEND_OK is a receipt.

use event::Secret;

use crate::manner::{Manner, Naming};

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
    /// `rocketmq://HOST:PORT,HOST:PORT` or `rocketmq+tls://…`.
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
