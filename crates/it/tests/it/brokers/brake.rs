//! A relay whose route allows consumers to be only so far behind waits for them, on real brokers.

use std::time::Duration;

use broker::manner::{Manner, Subscription};
use event::{Event, EventId, Listed, Status};
use it::quay::{Quay, kafka, nats, rabbitmq, redis, rocketmq};
use it::site::{Rules, Site};
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);

#[tokio::test]
async fn on_rocketmq() {
    wait_for_consumers(&rocketmq::shared().await).await;
}

#[tokio::test]
async fn on_kafka() {
    wait_for_consumers(&kafka::shared().await).await;
}

#[tokio::test]
async fn on_rabbitmq() {
    wait_for_consumers(&rabbitmq::shared().await).await;
}

#[tokio::test]
async fn on_nats() {
    wait_for_consumers(&nats::shared().await).await;
}

#[tokio::test]
async fn on_redis() {
    wait_for_consumers(&redis::shared().await).await;
}

async fn wait_for_consumers(quay: &dyn Quay) {
    let group = format!("group-{}", EventId::new());
    let topic = quay.topic(&group).await.unwrap();
    let events = |count: usize| -> Vec<Event> {
        (0..count).map(|n| Event::new(&*topic, "Counted", "{}").key(n.to_string())).collect()
    };
    // A group that has begun, and is 30 behind.
    let publisher = quay.sink(Manner::new("it")).await.unwrap();
    assert!(publisher.publish(&events(31)).await.iter().all(Result::is_ok));
    let feed = quay.feed(Subscription::new(&*group, &[&*topic])).await.unwrap();
    let until = Instant::now() + PATIENCE;
    let mut taken = 0;
    while taken < 1 {
        if let Ok(Some(delivery)) = feed.next(LOOK).await {
            feed.ack(delivery.handle).await.unwrap();
            taken += 1;
        }
        assert!(Instant::now() < until, "nothing comes");
    }
    feed.close().await;

    let site = Site::new().await.unwrap();
    let rules = Rules { route: "lag_limit = 10", timeout: "5s", lease: "15s", ..Rules::default() };
    let mut relay = site.relay_to("relay", &quay.lines(), &topic, &rules).unwrap();
    // What is put before the first look may pass.
    while !relay.log().contains("consumers-behind") {
        site.outbox.put(&events(1), None).await.unwrap();
        assert!(Instant::now() < until && !relay.has_ended().unwrap(), "{}", relay.log());
        sleep(LOOK).await;
    }
    let more = events(20);
    site.outbox.put(&more, None).await.unwrap();
    sleep(5 * LOOK).await;
    let is_of_more = |row: &Listed| more.iter().any(|event| event.id == row.event.id);
    let rows = site.rows().await.unwrap();
    let waits = |row: &&Listed| is_of_more(row) && row.status != Status::Sent;
    assert_eq!(rows.iter().filter(waits).count(), more.len());

    let feed = quay.feed(Subscription::new(&*group, &[&*topic])).await.unwrap();
    let counts = site.counts().await.unwrap();
    let all = counts.sent + counts.pending();
    while site.counts().await.unwrap().sent < all {
        assert!(Instant::now() < until, "{}", relay.log());
        if let Ok(Some(delivery)) = feed.next(LOOK).await {
            feed.ack(delivery.handle).await.unwrap();
        }
    }
    feed.close().await;
}
