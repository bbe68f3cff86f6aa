//! RabbitMQ keeps the promises of a sink and of a feed, on the real broker.

mod facts;
mod foreign;
mod queues;
mod refused;
mod waves;

use std::time::Duration;

use broker::manner::{Manner, Subscription};
use broker::rabbitmq::{RabbitMq, RabbitMqFeed};
use event::{Answer, Delivery, Event, EventId, Feed, Sink};
use it::quay::rabbitmq::RabbitMqQuay;
use tokio::time::{Instant, sleep};

it::sink_contract!(it::quay::rabbitmq::shared, it::quay::rabbitmq::own);
it::feed_contract!(it::quay::rabbitmq::shared, it::quay::rabbitmq::own, it::quay::rabbitmq::own);

/// How long a fact may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

fn manner() -> Manner {
    Manner { timeout: Duration::from_secs(10), ..Manner::new("orders") }
}

fn sink(quay: &RabbitMqQuay) -> RabbitMq {
    RabbitMq::new(quay.options(manner())).unwrap()
}

fn feed(quay: &RabbitMqQuay, group: &str, topic: &str) -> RabbitMqFeed {
    RabbitMqFeed::new(quay.feed_options(Subscription::new(group, &[topic]))).unwrap()
}

async fn next(feed: &RabbitMqFeed) -> Delivery {
    let until = Instant::now() + PATIENCE;
    loop {
        match feed.next(Duration::from_millis(500)).await {
            Ok(Some(delivery)) => return delivery,
            Ok(None) => {}
            Err(_) => sleep(LOOK).await,
        }
        assert!(Instant::now() < until, "nothing comes");
    }
}

fn named(word: &str) -> String {
    format!("{word}-{}", EventId::new())
}

async fn one(sink: &RabbitMq, event: &Event) -> Answer {
    sink.publish(std::slice::from_ref(event)).await.remove(0)
}
