//! Several brokers of RocketMQ, through a proxy and without: what the death of one means for the
//! others, and what a slave means for a receipt.

mod masters;
mod slaves;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::{Manner, Subscription};
use broker::rocketmq::Shape;
use event::{Answer, Event, EventId, Feed, Refusal, Sink};
use futures_util::future::join_all;
use it::quay::Quay;
use it::quay::rocketmq_fleet::Fleet;
use tokio::time::sleep;

use super::rocketmq::{PATIENCE, manner};

/// How long to wait between two tries.
const LOOK: Duration = Duration::from_millis(100);

const KEYS: usize = 12;

/// One way for events: a sink, a topic of its own, and who takes in.
struct Way {
    sink: Arc<dyn Sink>,
    proxy: bool,
    shape: Shape,
    topic: String,
    feed: Arc<dyn Feed>,
    put: Vec<Event>,
    come: Vec<Event>,
    /// How often something was offered, and how often something of it was refused.
    tries: (usize, usize),
}

impl Way {
    /// Opens one of each shape, through a proxy or without.
    async fn open_both(fleet: &Fleet, proxy: bool) -> Vec<Way> {
        let shapes = [Shape::Fifo, Shape::Normal];
        join_all(shapes.map(|shape| Way::open(fleet, proxy, shape))).await
    }

    async fn open(fleet: &Fleet, proxy: bool, shape: Shape) -> Way {
        let sink = sink(fleet, proxy, shape, manner());
        let kind = if shape == Shape::Fifo { "FIFO" } else { "NORMAL" };
        let (topic, group) = (format!("t-{}", EventId::new()), format!("g-{}", EventId::new()));
        fleet.whole().make_topic(&topic, kind).await.expect("a topic is made");
        fleet.whole().make_group(&group, shape == Shape::Fifo).await.expect("a group is made");
        let wants = Subscription::new(group, &[&topic]);
        let feed = fleet.whole().feed(wants).await.expect("it is right");
        Way { sink, proxy, shape, topic, feed, put: Vec::new(), come: Vec::new(), tries: (0, 0) }
    }

    /// Makes events of all keys.
    fn events(&self, count: usize) -> Vec<Event> {
        let key = |n: usize| format!("key-{}", n % KEYS);
        (0..count).map(|n| Event::new(&*self.topic, "T", format!("{n}")).key(key(n))).collect()
    }

    /// Offers events as a relay does, until all are taken. Nothing is dead, and the lane never
    /// rests: a broker is there.
    async fn offer(&mut self, events: Vec<Event>) {
        let until = Instant::now() + PATIENCE;
        self.put.extend(events.iter().cloned());
        let mut left = events;
        while !left.is_empty() {
            let answers = self.sink.publish(&left).await;
            let lives =
                |answer: &Answer| !matches!(answer, Err(Refusal::Down(_) | Refusal::Reject(_)));
            assert!(answers.iter().all(lives), "{:?}: {answers:?}", self.shape);
            let refused = answers.iter().filter(|answer| answer.is_err()).count();
            self.tries = (self.tries.0 + 1, self.tries.1 + usize::from(refused > 0));
            assert!(Instant::now() < until, "{refused} are left: {answers:?}");
            let again = left.into_iter().zip(answers).filter(|(_, answer)| answer.is_err());
            left = again.map(|(event, _)| event).collect();
            if !left.is_empty() {
                sleep(LOOK).await;
            }
        }
    }

    /// Takes in until all has come that was put.
    async fn take(&mut self) {
        let missing = |way: &Way| -> BTreeSet<EventId> {
            let come: BTreeSet<EventId> = way.come.iter().map(|event| event.id).collect();
            way.put.iter().map(|event| event.id).filter(|id| !come.contains(id)).collect()
        };
        let mut until = Instant::now() + PATIENCE;
        while !missing(self).is_empty() {
            assert!(Instant::now() < until, "{:?}: {} are lost", self.shape, missing(self).len());
            // Polls of a broker that is away fail; the others go on.
            let Ok(Some(delivery)) = self.feed.next(Duration::from_secs(1)).await else { continue };
            until = Instant::now() + PATIENCE;
            let event = delivery.event.expect("only events were published");
            // A broker that is away knows nothing of it, and brings it once more.
            let _ = self.feed.ack(delivery.handle).await;
            if self.come.iter().all(|known| known.id != event.id) {
                self.come.push(event);
            }
        }
    }

    /// Each key came in the order in which it was put.
    fn is_in_order(&self) {
        let keys = |events: &[Event]| {
            let mut keys: HashMap<String, Vec<EventId>> = HashMap::new();
            for event in events {
                keys.entry(event.key.clone().expect("all have keys")).or_default().push(event.id);
            }
            keys
        };
        assert_eq!(keys(&self.come), keys(&self.put));
    }

    /// Returns how many events of the topic each of two brokers has.
    async fn shares(&self, fleet: &Fleet) -> [i64; 2] {
        let queues = fleet.whole().queues(&self.topic).await.expect("both tell");
        [queues[0].iter().sum(), queues[1].iter().sum()]
    }
}

fn sink(fleet: &Fleet, proxy: bool, shape: Shape, manner: Manner) -> Arc<dyn Sink> {
    let options = match proxy {
        true => fleet.whole().options(manner, shape),
        false => fleet.quay.options(manner, shape),
    };
    broker::rocketmq::sink(options).expect("the options are right")
}
