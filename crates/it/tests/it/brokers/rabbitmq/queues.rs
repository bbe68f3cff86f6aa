//! Queues as a feed finds and makes them.

use std::time::Duration;

use broker::manner::{Naming, Subscription};
use broker::rabbitmq::{FeedOptions, Options, RabbitMq, RabbitMqFeed};
use event::{Code, Event, Feed, Nack, Refusal, Secret, Sink};
use it::quay::Quay;
use it::quay::rabbitmq::{RabbitMqQuay, shared};
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{LOOK, PATIENCE, feed, manner, named, next, one, sink};

#[tokio::test]
async fn the_exchange_without_a_name_leads_to_the_queue_of_that_name() {
    let quay = shared().await;
    let (queue, url) = (named("queue"), Secret::new(&*quay.url));
    let subscription = Subscription::new("group", &[&queue]);
    let feed = RabbitMqFeed::new(FeedOptions::new(url, "", subscription)).unwrap();
    feed.declare().await.unwrap();
    let naming = Naming::new(&queue).unwrap();
    let options = Options { exchange: String::new(), topic: naming, ..quay.options(manner()) };
    let (sink, event) = (RabbitMq::new(options).unwrap(), Event::new("order.paid", "T", "{}"));
    sink.probe().await.unwrap();
    one(&sink, &event).await.unwrap();
    let come = next(&feed).await;
    assert_eq!(come.event.unwrap(), event);
    assert!(come.origin.starts_with(&queue), "{}", come.origin);
}

/// Twice given up by a holder that went away: the broker counts it.
#[tokio::test]
async fn the_broker_counts_how_often_it_handed_something_out() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    one(&sink(&quay), &Event::new(&*topic, "T", "{}")).await.unwrap();
    for attempt in 1..=3 {
        let feed = feed(&quay, "group", &topic);
        assert_eq!(next(&feed).await.attempt, attempt);
        feed.close().await;
    }
}

#[tokio::test]
async fn what_fails_too_often_is_dead_by_the_brokers_own_limit() {
    let quay = shared().await;
    let (topic, group) = (named("topic"), "group");
    let limited = || {
        let options = quay.feed_options(Subscription::new(group, &[&topic]));
        RabbitMqFeed::new(FeedOptions { delivery_limit: 2, ..options }).unwrap()
    };
    limited().declare().await.unwrap();
    let event = Event::new(&*topic, "T", "{}");
    one(&sink(&quay), &event).await.unwrap();
    for _ in 0..3 {
        let feed = limited();
        next(&feed).await;
        feed.close().await;
    }
    let grave = feed(&quay, "undertaker", &format!("{group}.{topic}.dead"));
    assert_eq!(next(&grave).await.event.unwrap().id, event.id);
    assert_eq!(limited().next(Duration::from_secs(1)).await, Ok(None));
}

#[tokio::test]
async fn a_queue_that_is_deleted_under_its_consumer_is_made_again() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let (sink, feed) = (sink(&quay), feed(&quay, "group", &topic));
    one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
    let first = next(&feed).await;
    feed.ack(first.handle).await.unwrap();
    quay.ask(Method::DELETE, &format!("queues/%2f/group.{topic}"), None).await.unwrap();
    let down = feed.next(PATIENCE).await;
    let Err(Refusal::Down(cause)) = down else { panic!("{down:?}") };
    assert!(cause.detail.contains("cancelled"), "{cause}");
    // It joins again by itself, and what is published from then on comes.
    assert_eq!(feed.next(Duration::from_secs(2)).await, Ok(None));
    let event = Event::new(&*topic, "T", "{}");
    one(&sink, &event).await.unwrap();
    assert_eq!(next(&feed).await.event.unwrap().id, event.id);
}

#[tokio::test]
async fn a_queue_with_other_settings_is_left_as_it_is_and_told() {
    let (quay, topic) = (shared().await, named("topic"));
    let queue = format!("group.{topic}");
    let body = json!({"durable": true, "arguments": {"x-queue-type": "classic"}});
    quay.ask(Method::PUT, &format!("queues/%2f/{queue}"), Some(body)).await.unwrap();
    let Err(Refusal::Down(cause)) = feed(&quay, "group", &topic).declare().await else { panic!() };
    assert!(cause.detail.contains("inequivalent") && cause.detail.contains(&queue), "{cause}");
    // It can be read as it is.
    let options = quay.feed_options(Subscription::new("group", &[&topic]));
    let feed = RabbitMqFeed::new(FeedOptions { declare: false, ..options }).unwrap();
    assert_eq!(feed.next(Duration::from_secs(1)).await, Ok(None));
    let options = quay.feed_options(Subscription::new("nobody", &[&topic]));
    let feed = RabbitMqFeed::new(FeedOptions { declare: false, ..options }).unwrap();
    let missing = feed.next(PATIENCE).await;
    let Err(Refusal::Down(cause)) = missing else { panic!("{missing:?}") };
    assert_eq!(cause.code, Code::TopicMissing);
}

#[tokio::test]
async fn one_queue_for_all_topics_keeps_a_key_in_order_across_them() {
    let (quay, group) = (shared().await, named("group"));
    let topics = [named("a"), named("b")];
    let subscription = Subscription::new(&*group, &[&topics[0], &topics[1]]);
    let options = quay.feed_options(subscription);
    let feed = RabbitMqFeed::new(FeedOptions { queue: Some(group), ..options }).unwrap();
    feed.declare().await.unwrap();
    let event = |n: usize| Event::new(&*topics[n % 2], "T", "{}").key("k");
    let events: Vec<_> = (0..10).map(event).collect();
    assert!(sink(&quay).publish(&events).await.iter().all(Result::is_ok));
    for event in &events {
        let come = next(&feed).await;
        assert_eq!(come.event.unwrap().id, event.id);
        assert_eq!(feed.next(Duration::ZERO).await, Ok(None), "its key is in hand");
        feed.ack(come.handle).await.unwrap();
    }
}

/// What waits behind a key that fails is with the consumer too, and unended.
#[tokio::test]
async fn a_key_that_is_to_come_later_leaves_room_for_others() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let subscription = Subscription { most: 2, ..Subscription::new("group", &[&topic]) };
    let feed = RabbitMqFeed::new(quay.feed_options(subscription)).unwrap();
    let event = |key: &str| Event::new(&*topic, "T", "{}").key(key);
    let mut events: Vec<_> = (0..7).map(|_| event("failing")).collect();
    events.push(event("other"));
    for event in &events {
        one(&sink(&quay), event).await.unwrap();
    }
    let failing = next(&feed).await;
    assert_eq!(failing.event.unwrap().id, events[0].id);
    feed.nack(failing.handle, Nack::Again(PATIENCE * 2)).await.unwrap();
    assert_eq!(next(&feed).await.event.unwrap().id, events[7].id);
}

/// The channel says so: a quorum queue tells how many are out a few seconds late.
#[tokio::test]
async fn no_more_are_brought_than_the_prefetch_whatever_waits() {
    const PREFETCH: u64 = 8;
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let events: Vec<_> =
        (0..40).map(|n: u32| Event::new(&*topic, "T", "{}").key(n.to_string())).collect();
    assert!(sink(&quay).publish(&events).await.iter().all(Result::is_ok));
    let subscription = Subscription { most: 2, ..Subscription::new("group", &[&topic]) };
    let feed = RabbitMqFeed::new(quay.feed_options(subscription)).unwrap();
    let mut come = next(&feed).await;
    let queue = format!("group.{topic}");
    let out = async |count: u64| {
        let until = Instant::now() + PATIENCE;
        loop {
            let told = unended(&quay, &queue).await;
            assert!(told.is_none_or(|told| told <= PREFETCH), "{told:?} are out");
            if told == Some(count) {
                return;
            }
            assert!(Instant::now() < until, "{told:?} are out, not {count}");
            sleep(LOOK).await;
        }
    };
    out(PREFETCH).await;
    for n in 1..events.len() {
        feed.ack(come.handle).await.unwrap();
        come = next(&feed).await;
        if n % 10 == 0 {
            out(PREFETCH.min(events.len() as u64 - n as u64)).await;
        }
    }
    out(1).await;
}

/// Asks the broker how many the consumer of a queue has that are not ended.
async fn unended(quay: &RabbitMqQuay, queue: &str) -> Option<u64> {
    let consumers = quay.ask(Method::GET, "consumers/%2f", None).await.unwrap();
    let mut consumers = consumers.as_array()?.iter();
    let consumer = consumers.find(|it| it["queue"]["name"] == queue)?;
    let channel = consumer["channel_details"]["name"].as_str()?;
    let channels = quay.ask(Method::GET, "channels", None).await.unwrap();
    let channel = channels.as_array()?.iter().find(|it| it["name"] == channel)?;
    channel["messages_unacknowledged"].as_u64()
}
