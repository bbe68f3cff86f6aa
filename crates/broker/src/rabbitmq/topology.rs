//! What must be there on the broker: the exchange of a sink, the queues of a group.
//!
//! Nothing that is there is changed: what has other settings is an error that says so.

use event::{Cause, Code, Refusal};
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::AMQPSoftError;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Error, ErrorKind};

use super::line::Line;
use super::refusal::{self, Where};
use super::wire::{table, words};

/// An exchange. The one without a name is always there.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) name: String,
    declare: bool,
}

impl Exchange {
    pub(super) fn new(name: String, declare: bool) -> Result<Exchange, Cause> {
        named("exchange", &name)?;
        Ok(Exchange { name, declare })
    }

    /// Makes sure that it is there.
    pub(super) async fn ensure(&self, line: &Line, host: &str) -> Result<(), Refusal> {
        let at = Where { host, exchange: &self.name };
        self.look(line).await.map_err(|error| refusal::before(&error, at))
    }

    async fn look(&self, line: &Line) -> lapin::Result<()> {
        let channel = line.plain_channel().await?;
        let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
        let found = match self.name.is_empty() {
            true => Ok(()),
            false => self.declare(&channel, passive).await,
        };
        match found {
            Err(error) if self.declare && is_missing(&error) => {
                // The answer has closed the channel.
                let channel = line.plain_channel().await?;
                let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
                self.declare(&channel, durable).await?;
                channel.close(200, "OK".into()).await
            }
            Err(error) => Err(error),
            Ok(()) => channel.close(200, "OK".into()).await,
        }
    }

    async fn declare(
        &self,
        channel: &Channel,
        options: ExchangeDeclareOptions,
    ) -> lapin::Result<()> {
        let (name, none) = (self.name.as_str().into(), FieldTable::default());
        channel.exchange_declare(name, ExchangeKind::Topic, options, none).await
    }
}

/// The queue of a group, and the one beside it where its dead are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) name: String,
    /// The routing keys that lead to it, `*` and `#` among them.
    pub(super) keys: Vec<String>,
}

/// How queues are declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) ordered: bool,
    pub(super) delivery_limit: u32,
}

impl Queue {
    /// Returns the queues of a group: one for each topic, or one for all if it has a name. With the
    /// exchange that has no name, topics are queues.
    pub(super) fn of(
        group: &str,
        topics: &[String],
        exchange: &str,
        name: Option<&str>,
    ) -> Result<Vec<Queue>, Cause> {
        let queues: Vec<Queue> = match name {
            Some(name) => vec![Queue { name: name.to_owned(), keys: topics.to_vec() }],
            None => topics.iter().map(|topic| Queue::own(group, topic, exchange)).collect(),
        };
        for queue in &queues {
            named("queue", &queue.dead())?;
            queue.keys.iter().try_for_each(|key| named("topic", key))?;
        }
        if queues.is_empty() {
            return Err(Cause::new(Code::ConfigInvalid, "topics: there are none"));
        }
        Ok(queues)
    }

    fn own(group: &str, topic: &str, exchange: &str) -> Queue {
        match exchange {
            "" => Queue { name: topic.to_owned(), keys: Vec::new() },
            _ => Queue { name: format!("{group}.{topic}"), keys: vec![topic.to_owned()] },
        }
    }

    /// Returns the name of the queue where its dead are kept.
    pub(super) fn dead(&self) -> String {
        format!("{}.dead", self.name)
    }

    /// Makes sure that it is there, as it is.
    pub(super) async fn look(&self, channel: &Channel) -> lapin::Result<()> {
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let name = ShortString::from(self.name.as_str());
        channel.queue_declare(name, passive, FieldTable::default()).await.map(drop)
    }

    /// Makes sure that it is there with all that belongs to it.
    pub(super) async fn declare(
        &self,
        channel: &Channel,
        exchange: &str,
        kind: Kind,
    ) -> lapin::Result<()> {
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        let (name, dead) = (ShortString::from(self.name.as_str()), self.dead());
        let kept = table([("x-queue-type", words("quorum"))]);
        channel.queue_declare(dead.as_str().into(), durable, kept).await?;
        channel.queue_declare(name.clone(), durable, arguments(&dead, kind)).await?;
        for key in self.keys.iter().filter(|_| !exchange.is_empty()) {
            let (exchange, key) = (exchange.into(), key.as_str().into());
            let bound = QueueBindOptions::default();
            channel.queue_bind(name.clone(), exchange, key, bound, FieldTable::default()).await?;
        }
        Ok(())
    }
}

/// Dead letters go by the exchange without a name, which leads to their queue and nowhere else; and
/// an event leaves its queue only once that queue has it.
fn arguments(dead: &str, kind: Kind) -> FieldTable {
    table([
        ("x-queue-type", words("quorum")),
        ("x-single-active-consumer", AMQPValue::Boolean(kind.ordered)),
        ("x-delivery-limit", AMQPValue::LongLongInt(kind.delivery_limit.into())),
        ("x-dead-letter-exchange", words("")),
        ("x-dead-letter-routing-key", words(dead)),
        ("x-dead-letter-strategy", words("at-least-once")),
        ("x-overflow", words("reject-publish")),
    ])
}

/// Tells whether something is not there.
fn is_missing(error: &Error) -> bool {
    let missing = AMQPSoftError::NOTFOUND.get_id();
    matches!(error.kind(), ErrorKind::ProtocolError(said) if said.get_id() == missing)
}

fn named(what: &str, name: &str) -> Result<(), Cause> {
    let long = |_| Cause::new(Code::ConfigInvalid, format_args!("{what}: {name:?} is too long"));
    ShortString::try_new(name).map(drop).map_err(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, keys: &[&str]) -> Queue {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Queue { name: name.to_owned(), keys }
    }

    #[test]
    fn a_group_has_a_queue_for_each_topic_or_one_for_all() {
        let topics = ["order.*".to_owned(), "stock".to_owned()];
        let each = Queue::of("billing", &topics, "events", None).unwrap();
        let expected = [queue("billing.order.*", &["order.*"]), queue("billing.stock", &["stock"])];
        assert_eq!(each, expected);
        assert_eq!(each[1].dead(), "billing.stock.dead");
        let one = Queue::of("billing", &topics, "events", Some("all")).unwrap();
        assert_eq!(one, [queue("all", &["order.*", "stock"])]);
        let own = Queue::of("billing", &topics[1..], "", None).unwrap();
        assert_eq!(own, [queue("stock", &[])]);
    }

    #[test]
    fn names_that_amqp_cannot_carry_are_refused() {
        let long = ["x".repeat(250)];
        assert!(Queue::of("billing", &long, "events", None).is_err());
        assert!(Queue::of("billing", &[], "events", None).is_err());
        assert!(Exchange::new("x".repeat(256), true).is_err());
    }
}
