//! What JetStream counts as handed out and nobody has: nothing newer of its key goes before it.

use std::time::{Duration, Instant};

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use broker::manner::{Manner, Subscription};
use event::{Delivery, Event, EventId, Feed};
use futures_util::StreamExt;
use it::answer::{paid, publish};
use it::quay::Quay;
use it::quay::nats::{NatsQuay, shared, stream_of};

const PATIENCE: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(4);

fn id(come: &Delivery) -> EventId {
    come.event.as_ref().unwrap().id
}

async fn put(quay: &NatsQuay, events: &[Event]) {
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    for event in events {
        publish(&*sink, event).await.unwrap();
    }
}

async fn takes(feed: &dyn Feed) -> EventId {
    let come = feed.next(PATIENCE).await.unwrap().expect("it comes");
    feed.ack(come.handle).await.unwrap();
    id(&come)
}

fn of(topic: &str) -> Subscription {
    Subscription { lease: LEASE, ..Subscription::new("lost", &[topic]) }
}

/// Takes so many for the group by its consumer, as another feed does, or one that then dies.
async fn elsewhere(quay: &NatsQuay, topic: &str, count: usize) -> Vec<Message> {
    let stream = quay.jetstream().await.unwrap().get_stream(stream_of(topic)).await.unwrap();
    let consumer: PullConsumer = stream.get_consumer("lost").await.unwrap();
    let batch = consumer.batch().max_messages(count).expires(PATIENCE).messages().await.unwrap();
    batch.map(|message| message.unwrap()).collect().await
}

/// Begins a group, whose consumer is there from then on.
async fn begin(quay: &NatsQuay, topic: &str) {
    put(quay, &[paid(topic)]).await;
    let feed = quay.feed(of(topic)).await.unwrap();
    takes(&*feed).await;
    feed.close().await;
}

#[tokio::test]
async fn what_a_feed_had_that_died_goes_before_what_is_newer_of_its_key_and_no_other_waits() {
    let quay = shared().await;
    let topic = quay.topic("lost").await.unwrap();
    begin(&quay, &topic).await;
    let (lost, follower) = ([paid(&topic), paid(&topic)], paid(&topic));
    let other = paid(&topic).key("another");
    put(&quay, &lost).await;
    let taken = Instant::now();
    assert_eq!(elsewhere(&quay, &topic, 2).await.len(), 2);
    put(&quay, &[follower.clone(), other.clone()]).await;
    let feed = quay.feed(of(&topic)).await.unwrap();
    let mut come = vec![takes(&*feed).await];
    // On a busy machine what was lost may be due before this feed has joined.
    if taken.elapsed() < LEASE {
        assert_eq!(come, [other.id]);
    }
    for _ in 0..3 {
        come.push(takes(&*feed).await);
    }
    come.retain(|id| *id != other.id);
    assert_eq!(come, [lost[0].id, lost[1].id, follower.id]);
}

#[tokio::test]
async fn what_another_feed_has_ended_is_waited_for_no_more() {
    let quay = shared().await;
    let topic = quay.topic("lost").await.unwrap();
    begin(&quay, &topic).await;
    let events = [paid(&topic), paid(&topic)];
    put(&quay, &events[..1]).await;
    let out = elsewhere(&quay, &topic, 1).await.remove(0);
    put(&quay, &events[1..]).await;
    let long = Subscription { lease: 10 * PATIENCE, ..of(&topic) };
    let newcomer = quay.feed(long).await.unwrap();
    assert_eq!(newcomer.next(LEASE / 2).await, Ok(None), "the first is out");
    out.double_ack().await.unwrap();
    assert_eq!(takes(&*newcomer).await, events[1].id);
}

/// With many in hand, those that wait fill it; what was missed finds room all the same.
#[tokio::test]
async fn what_was_missed_finds_room_in_a_full_hand() {
    let quay = shared().await;
    let topic = quay.topic("lost").await.unwrap();
    begin(&quay, &topic).await;
    let lost: Vec<Event> = (0..3).map(|_| paid(&topic)).collect();
    let followers: Vec<Event> = (0..40).map(|_| paid(&topic)).collect();
    put(&quay, &lost).await;
    assert_eq!(elsewhere(&quay, &topic, 3).await.len(), 3);
    put(&quay, &followers).await;
    let feed = quay.feed(Subscription { most: 2, ..of(&topic) }).await.unwrap();
    for event in lost.iter().chain(&followers) {
        assert_eq!(takes(&*feed).await, event.id);
    }
}
