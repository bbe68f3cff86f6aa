//! How topics are laid out over brokers, as the cluster tells it, and which of them events can go
//! to.

use std::collections::{BTreeMap, BTreeSet};

use rdkafka::metadata::{Metadata, MetadataPartition, MetadataTopic};

use super::lag::DEAD;
use super::told::Place;
use crate::leads::Leads;

/// What Kafka keeps its own books in.
const OWN: &str = "__";

/// The brokers and topics of a cluster.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// Where each broker is.
    pub(super) brokers: BTreeMap<i32, String>,
    topics: BTreeMap<String, Shape>,
}

/// One topic.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// Who leads each partition.
    leaders: Vec<(i32, i32)>,
    /// The fewest replicas of a partition, and the fewest in sync.
    replicas: (usize, usize),
}

impl Shapes {
    pub(super) fn read(metadata: &Metadata) -> Shapes {
        let address = |host: &str, port: i32| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let brokers = metadata.brokers().iter();
        let brokers = brokers.map(|it| (it.id(), address(it.host(), it.port())));
        let topics = metadata.topics().iter().filter(|topic| topic.error().is_none());
        let topics = topics.map(|topic| (topic.name().to_owned(), Shape::read(topic)));
        Shapes { brokers: brokers.collect(), topics: topics.collect() }
    }

    /// Returns the topics that events go to: those that they went to, those that are named, and
    /// those that are there and that routes lead to.
    pub(super) fn led_to(&self, leads: &Leads, published: &[String]) -> BTreeSet<String> {
        let mut known = leads.exact();
        known.extend(published.iter().cloned());
        let grave = |name: &str| {
            let of = name.strip_suffix(DEAD);
            of.is_some_and(|topic| self.topics.contains_key(topic))
        };
        let there = self.topics.keys().filter(|name| !name.starts_with(OWN) && !grave(name));
        let there: Vec<String> = there.filter(|name| leads.has(name)).cloned().collect();
        known.extend(there);
        known
    }

    /// Returns the fewest replicas of a topic, and the fewest in sync, if it is there.
    pub(super) fn replicas(&self, topic: &str) -> Option<(usize, usize)> {
        self.topics.get(topic).map(|shape| shape.replicas)
    }

    /// Returns how many partitions a topic has.
    pub(super) fn partitions(&self, topic: &str) -> usize {
        self.topics.get(topic).map_or(0, |shape| shape.leaders.len())
    }

    /// Returns the partitions of some topics that a broker leads.
    pub(super) fn led_by(&self, broker: i32, topics: &BTreeSet<String>) -> Vec<Place> {
        let of = |topic: &String| {
            let leaders = self.topics.get(topic).into_iter().flat_map(|shape| &shape.leaders);
            let led = leaders.filter(|(_, leader)| *leader == broker);
            led.map(|(partition, _)| (topic.clone(), *partition)).collect::<Vec<_>>()
        };
        topics.iter().flat_map(of).collect()
    }
}

impl Shape {
    fn read(topic: &MetadataTopic) -> Shape {
        let partitions = topic.partitions();
        let fewest = |count: &dyn Fn(&MetadataPartition) -> usize| {
            partitions.iter().map(count).min().unwrap_or_default()
        };
        let replicas = (fewest(&|it| it.replicas().len()), fewest(&|it| it.isr().len()));
        let leaders = partitions.iter().map(|it| (it.id(), it.leader())).collect();
        Shape { leaders, replicas }
    }
}

#[cfg(test)]
mod tests {
    use event::Topics;

    use super::*;
    use crate::manner::Naming;

    #[test]
    fn events_go_to_what_routes_name_and_to_what_is_there() {
        let there = ["order.paid", "order.paid.dead", "order.dead", "stranger", "__offsets"];
        let topics = there.map(|name| (name.to_owned(), Shape::default()));
        let shapes = Shapes { topics: topics.into(), ..Shapes::default() };
        let led = |routes: &[&str]| {
            let routes = routes.iter().map(|route| (route.parse().unwrap(), true)).collect();
            let leads = Leads::new(&Naming::default(), &[Topics::of(routes)]);
            Vec::from_iter(shapes.led_to(&leads, &["old".to_owned()]))
        };
        assert_eq!(led(&["order.*", "bill"]), ["bill", "old", "order.dead", "order.paid"]);
        assert_eq!(led(&["*"]), ["old", "order.dead", "order.paid", "stranger"]);
        assert_eq!(led(&[]), ["old"]);
    }
}
