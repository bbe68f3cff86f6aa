//! What every sink and every feed of a broker is told besides its address.

use std::time::Duration;

use event::{Event, Topics};
use tokio_util::sync::CancellationToken;

use crate::gate::Gates;

/// How a sink publishes.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Which outbox the events came from.
    pub source: String,
    /// How long one event may take, connecting included. It must be well below the lease and the
    /// drain, because a publish can last twice as long.
    pub timeout: Duration,
    /// The most events at once; how many it is in fact follows the destination.
    pub concurrency: usize,
    /// When the relay stops: what is out is waited for, and nothing new is offered.
    pub stop: CancellationToken,
    /// Where the gate of the destination is. All sinks of a process should share one.
    pub gates: Gates,
    /// Which topics lead here, for each outbox whose events come: a look at the destination covers
    /// them before any event has come.
    pub topics: Vec<Topics>,
}

impl Manner {
    /// Returns the usual manner: 10 s, 256 at once, and no topics that are known before their
    /// events.
    pub fn new(source: impl Into<String>) -> Manner {
        Manner {
            source: source.into(),
            timeout: Duration::from_secs(10),
            concurrency: 256,
            stop: CancellationToken::new(),
            gates: Gates::default(),
            topics: Vec::new(),
        }
    }

    /// Returns until when a batch is offered.
    #[cfg(any(feature = "nats", feature = "rabbitmq", feature = "redis", feature = "rocketmq"))]
    pub(crate) fn until(&self) -> crate::keyed::Until {
        crate::keyed::Until { patience: self.timeout, stop: self.stop.clone() }
    }
}

/// The broker's name for where an event goes: a pattern in which `{topic}` and `{type}` stand for
/// those of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming(String);

impl Naming {
    /// The event's own topic.
    pub const OWN: &str = "{topic}";

    /// Takes a pattern. The text of an error says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Naming, String> {
        let rest = pattern.replace("{topic}", "").replace("{type}", "");
        if pattern.is_empty() {
            return Err("it is empty; \"{topic}\" is the event's own topic".to_owned());
        }
        if pattern.chars().any(char::is_control) {
            return Err("it holds a control character, which no broker takes".to_owned());
        }
        if rest.contains(['{', '}']) {
            return Err(format!(
                "{pattern:?} may hold {{topic}} and {{type}}, and no other braces"
            ));
        }
        Ok(Naming(pattern.to_owned()))
    }

    /// Returns what stands before and behind the topic, if that is all that the name is made of: so
    /// the topic can be read from it.
    #[cfg(any(
        feature = "kafka",
        feature = "nats",
        feature = "rabbitmq",
        feature = "redis",
        feature = "rocketmq"
    ))]
    pub(crate) fn around(&self) -> Option<(&str, &str)> {
        let (before, behind) = self.0.split_once("{topic}")?;
        let plain = |text: &str| !text.contains('{');
        (plain(before) && plain(behind)).then_some((before, behind))
    }

    /// Returns the names that topics of a pattern can get, of whatever type.
    #[cfg(any(
        feature = "kafka",
        feature = "nats",
        feature = "rabbitmq",
        feature = "redis",
        feature = "rocketmq"
    ))]
    pub(crate) fn pattern(&self, topics: &event::Pattern) -> event::Pattern {
        let text = self.0.replace("{type}", "*").replace("{topic}", &topics.to_string());
        text.parse().expect("a name that is no pattern was refused")
    }

    /// Returns the name for one event.
    pub fn of(&self, event: &Event) -> String {
        if self.0 == Naming::OWN {
            return event.topic.clone();
        }
        // A topic that holds "{type}" must not be read as a pattern.
        let parts = self.0.split("{topic}").map(|part| part.replace("{type}", &event.kind));
        parts.collect::<Vec<_>>().join(&event.topic)
    }
}

impl Default for Naming {
    fn default() -> Naming {
        Naming(Naming::OWN.to_owned())
    }
}

/// What a group wants of a broker.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The consumer group.
    pub group: String,
    /// The broker's names of what it takes: topics, subjects, queues or streams.
    pub topics: Vec<String>,
    /// How long a delivery stays with its holder unless it is extended.
    pub lease: Duration,
    /// How many deliveries may be in hand at once.
    pub most: usize,
    /// How long one call to the broker may take.
    pub timeout: Duration,
}

impl Subscription {
    /// Returns the usual subscription: leases of 60 s, 64 in hand, 10 s for a call.
    pub fn new(group: impl Into<String>, topics: &[&str]) -> Subscription {
        Subscription {
            group: group.into(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            lease: Duration::from_secs(60),
            most: 64,
            timeout: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_the_topic_and_the_type_of_its_event_and_nothing_is_read_twice() {
        let event = Event::new("order.{type}", "Paid", "{}");
        let of = |pattern: &str| Naming::new(pattern).unwrap().of(&event);
        assert_eq!(of("{topic}"), "order.{type}");
        assert_eq!(of("shop.{topic}.{type}"), "shop.order.{type}.Paid");
        assert_eq!(of("all"), "all");
        for wrong in ["", "{key}", "a{", "a\nb"] {
            assert!(Naming::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
