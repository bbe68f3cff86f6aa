//! RabbitMQ: confirmed, mandatory, persistent; what no queue takes is refused.

use event::Secret;

use crate::manner::{Manner, Naming};

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://…`.
    pub url: Secret,
    /// The exchange; the empty one leads to the queue that the routing key names.
    pub exchange: String,
    /// The routing key.
    pub topic: Naming,
    /// Whether the exchange is declared, as a durable topic exchange, if it is not there.
    pub declare: bool,
    /// What all sinks are told.
    pub manner: Manner,
}
