//! RocketMQ without a proxy: the contract of a sink on the real broker, and what only it has.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::Subscription;
use broker::rocketmq::{RocketMq, RocketMqFeed, Shape};
use event::{Code, Event, EventId, Feed, Gauge, Millis, Sequence, Sink};
use it::quay::Quay;
use it::quay::rocketmq_remoting::{RemotingQuay, guarded, own_with, shared};

use super::rocketmq::{PATIENCE, all, cause_of, manner};

it::sink_contract!(it::quay::rocketmq_remoting::shared, it::quay::rocketmq_remoting::own);

pub(super) fn sink(quay: &RemotingQuay, shape: Shape) -> Arc<dyn Sink> {
    broker::rocketmq::sink(quay.options(manner(), shape)).expect("the options are right")
}

async fn topic(quay: &RemotingQuay, kind: &str) -> String {
    let topic = format!("topic-{}", EventId::new());
    quay.whole.make_topic(&topic, kind).await.expect("a topic is made");
    topic
}

async fn feed(quay: &RemotingQuay, topic: &str, fifo: bool) -> RocketMqFeed {
    let group = format!("group-{}", EventId::new());
    quay.whole.make_group(&group, fifo).await.expect("a group is made");
    RocketMqFeed::new(&quay.whole.access, Subscription::new(group, &[topic])).expect("it is right")
}

#[tokio::test]
async fn many_events_of_few_keys_stay_in_order_and_none_is_lost() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let (sink, feed) = (sink(&quay, Shape::Fifo), feed(&quay, &topic, true).await);
    let event = |n: usize| {
        Event::new(&*topic, "T", format!("{{\"n\": {n}}}")).key(format!("key-{}", n % 3))
    };
    let events: Vec<Event> = (0..600).map(event).collect();
    let answers = sink.publish(&events).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let mut keys: HashMap<String, Vec<EventId>> = HashMap::new();
    for event in all(&feed, events.len()).await {
        keys.entry(event.key.clone().expect("all have keys")).or_default().push(event.id);
    }
    for (key, come) in keys {
        let put = events.iter().filter(|event| event.key.as_ref() == Some(&key));
        assert_eq!(come, put.map(|event| event.id).collect::<Vec<_>>(), "{key}");
    }
    feed.close().await;
}

#[tokio::test]
async fn a_key_has_the_same_queue_with_a_proxy_and_without() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let through = RocketMq::new(quay.whole.options(manner(), Shape::Fifo)).expect("it is right");
    let (direct, feed) = (sink(&quay, Shape::Fifo), feed(&quay, &topic, true).await);
    let events: Vec<Event> =
        (0..60).map(|n| Event::new(&*topic, "T", "{}").key(format!("key-{}", n % 6))).collect();
    for (turn, part) in events.chunks(6).enumerate() {
        let answers = match turn % 2 {
            0 => through.publish(part).await,
            _ => direct.publish(part).await,
        };
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    // A broker counts what is in a queue some time after its receipt, but before it hands it out.
    all(&feed, events.len()).await;
    feed.close().await;
    // In one queue they stand in order; in two, nobody keeps them so.
    let queues = quay.whole.queues(&topic).await.expect("the broker tells").concat();
    let used = queues.iter().filter(|count| **count > 0).count();
    assert!(queues.iter().all(|count| count % 10 == 0), "{queues:?}");
    assert!((1..=6).contains(&used), "{queues:?}");
}

#[tokio::test]
async fn the_same_event_comes_whichever_way_it_went() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let through = RocketMq::new(quay.whole.options(manner(), Shape::Fifo)).expect("it is right");
    let (direct, feed) = (sink(&quay, Shape::Fifo), feed(&quay, &topic, true).await);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let odd = |key: &str| {
        let event =
            Event::new(&*topic, "a|b\tc", "{}").key(key).header("note", "a\tb%0A\u{1}\u{2}");
        let event = event.header("traceparent", trace).header("schemaversion", "3");
        Event { sequence: Sequence::of(4711), ..event }
    };
    let events = [odd(&"k".repeat(300)), odd("two\nlines 100%"), odd(" "), odd("ключ 7")];
    for sink in [&through as &dyn Sink, &*direct] {
        // Two of a topic share a request; one goes by itself.
        for part in [&events[..], &events[..1]] {
            let answers = sink.publish(part).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
    }
    let until = Instant::now() + PATIENCE;
    let mut come = 0;
    while come < 10 {
        assert!(Instant::now() < until, "{come} came");
        if let Ok(Some(delivery)) = feed.next(Duration::from_secs(1)).await {
            let event = delivery.event.expect("only events were published");
            feed.ack(delivery.handle).await.expect("it is in hand");
            assert_eq!(Some(&event), events.iter().find(|put| put.id == event.id));
            come += 1;
        }
    }
    feed.close().await;
}

#[tokio::test]
async fn normal_events_share_requests_and_one_bad_one_is_nobody_elses_end() {
    let quay = own_with(&["broker.maxMessageSize=65536"]).await;
    let topic = topic(&quay, "NORMAL").await;
    let feed = feed(&quay, &topic, false).await;
    one_bad_event_is_nobody_elses_end(&quay, &topic, &feed).await;
    feed.close().await;
}

/// Publishes many events to a broker that takes at the most 64 KiB. One of them is larger, which
/// only the broker knows.
pub(super) async fn one_bad_event_is_nobody_elses_end(
    quay: &RemotingQuay,
    topic: &str,
    feed: &dyn Feed,
) {
    const BAD: usize = 40;
    let event = |n| match n {
        BAD => Event::new(topic, "Large", "x".repeat(70_000)),
        n => Event::new(topic, "Counted", format!("{{\"n\": {n}}}")),
    };
    let events: Vec<Event> = (0..100).map(event).collect();
    let answers = sink(quay, Shape::Normal).publish(&events).await;
    for (place, answer) in answers.iter().enumerate() {
        match place {
            BAD => assert_eq!(cause_of(answer), Some(("reject", Code::TooLarge)), "{answer:?}"),
            _ => assert!(answer.is_ok(), "{place}: {answer:?}"),
        }
    }
    let ids = |events: Vec<Event>| -> BTreeSet<EventId> { events.iter().map(|it| it.id).collect() };
    let come = ids(all(feed, 99).await);
    assert!(!come.contains(&events[BAD].id));
    assert!(come.is_subset(&ids(events)));
}

#[tokio::test]
async fn a_delayed_event_comes_at_its_moment() {
    let quay = shared().await;
    let topic = topic(&quay, "DELAY").await;
    let (sink, feed) = (sink(&quay, Shape::Delay), feed(&quay, &topic, false).await);
    let due = Millis::now() + Duration::from_secs(4);
    let later = Event::new(&*topic, "Later", "{}").header("deliver-at", due.to_string());
    let now = Event::new(&*topic, "Now", "{}");
    let much_later = Millis::now() + Duration::from_secs(30 * 24 * 3600);
    let never = Event::new(&*topic, "Never", "{}").header("deliver-at", much_later.to_string());
    let answers = sink.publish(&[later.clone(), now.clone(), never]).await;
    assert!(answers[0].is_ok() && answers[1].is_ok(), "{answers:?}");
    assert_eq!(cause_of(&answers[2]), Some(("reject", Code::SinkRefused)), "{answers:?}");
    let come = all(&feed, 2).await;
    assert!(Millis::now() >= due, "it came too early");
    assert_eq!(come.iter().map(|event| event.id).collect::<Vec<_>>(), [now.id, later.id]);
    feed.close().await;
}

#[tokio::test]
async fn a_broker_that_asks_for_keys_lets_in_who_has_them_and_nobody_else() {
    let quay = guarded().await;
    it::suite::sink::limits::a_stranger_is_refused_and_no_secret_is_told(&quay).await;
    let topic = topic(&quay, "FIFO").await;
    let stranger = quay.stranger(manner()).await.expect("it is right").expect("it has keys");
    let answers = stranger.publish(&[Event::new(&*topic, "T", "{}").key("k")]).await;
    assert_eq!(cause_of(&answers[0]), Some(("down", Code::AuthRefused)), "{answers:?}");
    let probed = stranger.probe().await;
    assert_eq!(cause_of(&probed.map(|()| unreachable!())), Some(("down", Code::AuthRefused)));
    let seen = sink(&quay, Shape::Fifo).inspect().await.expect("it tells");
    assert!(seen.levels.iter().any(|level| level.gauge == Gauge::Disk), "{seen:?}");
}

#[tokio::test]
async fn a_topic_that_may_not_be_written_is_told_and_no_event_is_dead_for_it() {
    let quay = shared().await;
    closed(&quay, &topic(&quay, "FIFO").await).await;
}

/// Closes a topic, and publishes to it.
pub(super) async fn closed(quay: &RemotingQuay, topic: &str) {
    quay.whole.close_topic(topic).await.expect("its rights are changed");
    let event = [Event::new(topic, "T", "{}").key("k")];
    let answers = sink(quay, Shape::Fifo).publish(&event).await;
    assert_eq!(cause_of(&answers[0]), Some(("retry", Code::AuthRefused)), "{answers:?}");
}
