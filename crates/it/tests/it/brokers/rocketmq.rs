//! RocketMQ: the contracts on the real broker and proxy, and what only it has.

mod foreign;
mod full;
mod looks;
mod rights;

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::{Manner, Subscription};
use broker::rocketmq::{RocketMq, RocketMqFeed, Shape};
use event::{
    Answer, Code, Delivery, Event, EventId, Feed, Gauge, Inspection, Millis, Nack, Refusal, Sink,
};
use it::quay::Quay;
use it::quay::rocketmq::{RocketMqQuay, guarded, shared};

it::sink_contract!(it::quay::rocketmq::shared, it::quay::rocketmq::own);
it::feed_contract!(
    it::quay::rocketmq::shared,
    it::quay::rocketmq::own,
    it::quay::rocketmq::guarded
);

pub(super) const PATIENCE: Duration = Duration::from_secs(90);

pub(super) fn manner() -> Manner {
    Manner { timeout: Duration::from_secs(30), ..Manner::new("orders") }
}

fn sink(quay: &RocketMqQuay, shape: Shape) -> RocketMq {
    RocketMq::new(quay.options(manner(), shape)).expect("the options are right")
}

async fn topic(quay: &RocketMqQuay, kind: &str) -> String {
    let topic = format!("topic-{}", EventId::new());
    quay.make_topic(&topic, kind).await.expect("a topic is made");
    topic
}

async fn feed(quay: &RocketMqQuay, topic: &str, fifo: bool) -> RocketMqFeed {
    let group = format!("group-{}", EventId::new());
    quay.make_group(&group, fifo).await.expect("a group is made");
    RocketMqFeed::new(&quay.access, Subscription::new(group, &[topic])).expect("it is right")
}

/// Takes events in until so many have come; returns them in their order.
pub(super) async fn all(feed: &dyn Feed, count: usize) -> Vec<Event> {
    let mut until = Instant::now() + PATIENCE;
    let mut come: Vec<Event> = Vec::new();
    while come.len() < count {
        assert!(Instant::now() < until, "{} of {count} came", come.len());
        if let Ok(Some(delivery)) = feed.next(Duration::from_secs(1)).await {
            until = Instant::now() + PATIENCE;
            let event = delivery.event.expect("only events were published");
            feed.ack(delivery.handle).await.expect("it is in hand");
            if come.iter().all(|known| known.id != event.id) {
                come.push(event);
            }
        }
    }
    come
}

pub(super) fn cause_of(answer: &Answer) -> Option<(&'static str, Code)> {
    match answer {
        Err(Refusal::Reject(cause)) => Some(("reject", cause.code)),
        Err(Refusal::Retry(cause, _)) => Some(("retry", cause.code)),
        Err(Refusal::Down(cause)) => Some(("down", cause.code)),
        Err(Refusal::Unknown(cause)) => Some(("unknown", cause.code)),
        _ => None,
    }
}

#[tokio::test]
async fn normal_events_share_requests_and_one_bad_one_is_nobody_elses_end() {
    let quay = shared().await;
    let topic = topic(&quay, "NORMAL").await;
    let sink = sink(&quay, Shape::Normal);
    let mut events: Vec<Event> =
        (0..100).map(|n| Event::new(&*topic, "Counted", format!("{{\"n\": {n}}}"))).collect();
    // More properties than RocketMQ takes; only it knows that.
    for n in 0..200 {
        events[40].headers.0.insert(format!("h{n}"), "1".into());
    }
    let answers = sink.publish(&events).await;
    assert_eq!(cause_of(&answers[40]), Some(("reject", Code::TooLarge)), "{:?}", answers[40]);
    let others = answers.iter().enumerate().filter(|(place, _)| *place != 40);
    for (place, answer) in others {
        let receipt = answer.as_ref().unwrap_or_else(|refusal| panic!("{place}: {refusal:?}"));
        assert_eq!(receipt.broker_id, Some(events[place].id.to_string()));
    }
    let feed = feed(&quay, &topic, false).await;
    let come = all(&feed, 99).await;
    assert!(come.iter().all(|event| event.id != events[40].id));
    feed.close().await;
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
async fn a_shape_that_does_not_fit_its_topic_is_told_and_nothing_is_dead_for_it() {
    let quay = shared().await;
    let topic = topic(&quay, "NORMAL").await;
    let event = Event::new(&*topic, "T", "{}").key("k");
    let answers = sink(&quay, Shape::Fifo).publish(&[event]).await;
    assert_eq!(cause_of(&answers[0]), Some(("retry", Code::TopicMissing)), "{answers:?}");
    let Err(Refusal::Retry(cause, _)) = &answers[0] else { panic!("{answers:?}") };
    assert!(cause.detail.contains("shape") && cause.detail.contains(&topic), "{cause}");
}

#[tokio::test]
async fn long_keys_odd_types_and_control_characters_are_carried() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let (sink, feed) = (sink(&quay, Shape::Fifo), feed(&quay, &topic, true).await);
    let events = [
        Event::new(&*topic, "a|b\tc", "{}").key("k".repeat(300)),
        Event::new(&*topic, " ", "{}").key("two\nlines 100%"),
        Event::new(&*topic, "T", "{}").key(" ").header("note", "a\tb%0A"),
    ];
    let answers = sink.publish(&events).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for event in all(&feed, 3).await {
        let put = events.iter().find(|put| put.id == event.id).expect("it was put");
        assert_eq!(&event, put);
    }
    feed.close().await;
}

#[tokio::test]
async fn a_second_proxy_is_used_when_the_first_is_gone() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let mut options = quay.options(manner(), Shape::Fifo);
    // Nobody listens at the first.
    let address = quay.address().expect("an address");
    options.access.url = format!("rocketmq://127.0.0.1:1,{address}");
    let sink = RocketMq::new(options).expect("the options are right");
    let event = [Event::new(&*topic, "T", "{}").key("k")];
    let first = sink.publish(&event).await;
    assert!(matches!(first[0], Err(Refusal::Down(_))), "{first:?}");
    let second = sink.publish(&event).await;
    assert!(second[0].is_ok(), "{second:?}");
}

#[tokio::test]
async fn a_broker_that_asks_for_keys_lets_in_who_has_them_and_nobody_else() {
    let quay = guarded().await;
    it::suite::sink::limits::a_stranger_is_refused_and_no_secret_is_told(&quay).await;
    let stranger = quay.stranger(manner()).await.expect("it is right").expect("it has keys");
    let answers = stranger.publish(&[Event::new("t", "T", "{}").key("k")]).await;
    assert_eq!(cause_of(&answers[0]), Some(("down", Code::AuthRefused)), "{answers:?}");
    let seen = sink(&quay, Shape::Fifo).inspect().await.expect("it tells");
    assert!(seen.levels.iter().any(|level| level.gauge == Gauge::Disk), "{seen:?}");
}

/// Makes a topic, and a feed of a group that keeps no order.
async fn unordered(quay: &RocketMqQuay, lease: Duration) -> (String, RocketMqFeed) {
    let topic = topic(quay, "NORMAL").await;
    let group = format!("group-{}", EventId::new());
    quay.make_group(&group, false).await.expect("a group is made");
    let wants = Subscription { lease, ..Subscription::new(group, &[&topic]) };
    (topic, RocketMqFeed::new(&quay.access, wants).expect("it is right"))
}

/// Waits for the first delivery.
async fn first(feed: &RocketMqFeed) -> Delivery {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Ok(Some(delivery)) = feed.next(Duration::from_secs(1)).await {
            return delivery;
        }
        assert!(Instant::now() < until, "nothing comes");
    }
}

/// What a group without order gives back waits in a topic of its own.
#[tokio::test]
async fn what_is_tried_again_is_counted() {
    let quay = shared().await;
    let (topic, feed) = unordered(&quay, Duration::from_secs(20)).await;
    let sink = sink(&quay, Shape::Normal);
    let answers = sink.publish(&[Event::new(&*topic, "T", "{}")]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let delivery = first(&feed).await;
    feed.nack(delivery.handle, Nack::Again(Duration::from_secs(1))).await.expect("it is in hand");
    feed.close().await;
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = sink.inspect().await.expect("it tells");
        if Inspection::total(&seen.levels, Gauge::Retry) == Some(1.0) {
            break;
        }
        assert!(Instant::now() < until, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// In a group without order, the old receipt of a delivery that was extended ends nothing.
#[tokio::test]
async fn an_extended_delivery_is_ended_by_its_new_receipt() {
    const LEASE: Duration = Duration::from_secs(2);
    let quay = shared().await;
    let (topic, feed) = unordered(&quay, LEASE).await;
    let event = Event::new(&*topic, "T", "{}");
    let answers = sink(&quay, Shape::Normal).publish(&[event]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let delivery = first(&feed).await;
    feed.extend(delivery.handle, LEASE).await.expect("it is in hand");
    feed.ack(delivery.handle).await.expect("it is in hand");
    let again = feed.next(LEASE * 4).await;
    assert_eq!(again, Ok(None), "it was not ended");
    feed.close().await;
}

/// What waits is renewed under new receipts, so it is neither lost nor counted as handed out.
#[tokio::test]
async fn what_waits_longer_than_its_lease_comes_once_and_is_ended_for_good() {
    const LEASE: Duration = Duration::from_secs(4);
    let quay = shared().await;
    let (topic, feed) = unordered(&quay, LEASE).await;
    let events: Vec<Event> = (0..8).map(|_| Event::new(&*topic, "T", "{}")).collect();
    let answers = sink(&quay, Shape::Normal).publish(&events).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let until = Instant::now() + PATIENCE;
    let mut come = Vec::new();
    while come.len() < events.len() {
        assert!(Instant::now() < until, "{} came", come.len());
        if let Ok(Some(delivery)) = feed.next(Duration::from_secs(1)).await {
            // The work of one; all of it is longer than a lease.
            tokio::time::sleep(LEASE / 4).await;
            feed.ack(delivery.handle).await.expect("it is in hand");
            come.push((delivery.event.expect("only events were published").id, delivery.attempt));
        }
    }
    come.sort_unstable();
    let mut once: Vec<(EventId, u32)> = events.iter().map(|event| (event.id, 1)).collect();
    once.sort_unstable();
    assert_eq!(come, once);
    assert_eq!(feed.next(LEASE * 2).await, Ok(None), "one was not ended");
    feed.close().await;
}

#[tokio::test]
async fn a_topic_that_is_missing_is_told_and_keeps_no_other_from_a_feed() {
    let quay = shared().await;
    let (topic, missing) = (topic(&quay, "FIFO").await, format!("missing-{}", EventId::new()));
    let group = format!("group-{}", EventId::new());
    quay.make_group(&group, true).await.expect("a group is made");
    let wants = Subscription::new(group, &[&missing, &topic]);
    let feed = RocketMqFeed::new(&quay.access, wants).expect("it is right");
    let event = Event::new(&*topic, "T", "{}").key("k");
    let answers = sink(&quay, Shape::Fifo).publish(&[event]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    all(&feed, 1).await;
    let until = Instant::now() + PATIENCE;
    let told = loop {
        assert!(Instant::now() < until, "it is not told");
        if let Err(refusal) = feed.next(Duration::from_secs(15)).await {
            break refusal;
        }
    };
    assert_eq!(cause_of(&Err(told.clone())), Some(("retry", Code::TopicMissing)), "{told:?}");
    feed.close().await;
}

/// Without a name server, only another topic shows that a broker is there.
#[tokio::test]
async fn a_topic_counts_as_missing_only_while_something_shows_that_a_broker_is_there() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let mut options = quay.options(manner(), Shape::Fifo);
    options.access.url = format!("rocketmq://{}", quay.address().expect("an address"));
    let sink = RocketMq::new(options).expect("the options are right");
    let missing = [Event::new(format!("missing-{}", EventId::new()), "T", "{}").key("k")];
    let dark = sink.publish(&missing).await;
    assert_eq!(cause_of(&dark[0]), Some(("down", Code::SinkDown)), "{dark:?}");
    let answers = sink.publish(&[Event::new(&*topic, "T", "{}").key("k")]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    // What was found out stands for a moment.
    let until = Instant::now() + PATIENCE;
    while cause_of(&sink.publish(&missing).await[0]) != Some(("retry", Code::TopicMissing)) {
        assert!(Instant::now() < until, "another topic has a route");
    }
    assert_eq!(sink.probe().await, Ok(()));
}

#[tokio::test]
async fn a_group_that_is_not_there_is_told_with_what_to_do() {
    let quay = shared().await;
    let topic = topic(&quay, "FIFO").await;
    let feed = RocketMqFeed::new(&quay.access, Subscription::new("nobody-made-this", &[&topic]));
    let feed: Arc<dyn Feed> = Arc::new(feed.expect("it is right"));
    let refused = feed.next(Duration::from_secs(30)).await;
    let Err(Refusal::Down(cause)) = refused else { panic!("{refused:?}") };
    assert!(cause.detail.contains("updateSubGroup"), "{cause}");
    feed.close().await;
}
