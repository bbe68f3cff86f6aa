//! What only NATS JetStream has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use broker::manner::{Manner, Naming, Subscription};
use broker::nats::{Access, Nats, NatsFeed, dead_subject};
use event::{
    Cause, Code, Durability, Event, Feed, Gauge, Grade, Inspection, Nack, Refusal, Secret, Sink,
};
use it::answer::{cause, paid, publish};
use it::quay::Quay;
use it::quay::nats::{NatsQuay, shared, stream_of};
use it::world::need;
use tokio::time::sleep;

use super::{LOOK, PATIENCE};

fn manner() -> Manner {
    Manner::new("it")
}

fn sink_of(quay: &NatsQuay, stream: Option<&str>) -> Nats {
    let access = Access { url: Secret::new(quay.url.clone()), token: None, credentials: None };
    let options = quay.options(access, manner());
    Nats::new(broker::nats::Options { stream: stream.map(str::to_owned), ..options }).unwrap()
}

/// Checks what becomes of an event that a stream refuses.
async fn refused(change: impl FnOnce(&mut Config), kind: &str, code: Code) {
    let quay = shared().await;
    let topic = quay.make(change).await.unwrap();
    let (is, cause) = cause(publish(&sink_of(&quay, None), &paid(&topic)).await);
    assert_eq!((is, cause.code), (kind, code), "{cause}");
    assert!(cause.detail.contains(&topic), "{cause}");
}

#[tokio::test]
async fn a_stream_at_its_limit_backs_off() {
    refused(
        |config| {
            (config.max_bytes, config.discard) = (100, DiscardPolicy::New);
        },
        "retry",
        Code::BrokerFull,
    )
    .await;
}

#[tokio::test]
async fn what_is_larger_than_the_stream_allows_is_rejected() {
    refused(|config| config.max_message_size = 100, "reject", Code::TooLarge).await;
}

#[tokio::test]
async fn a_stream_that_never_acknowledges_is_unknown_and_told() {
    let quay = shared().await;
    let topic = quay.make(|config| config.no_ack = true).await.unwrap();
    let access = Access { url: Secret::new(quay.url.clone()), token: None, credentials: None };
    let brief = Manner { timeout: Duration::from_secs(2), ..manner() };
    let sink = Nats::new(quay.options(access, brief)).unwrap();
    let (is, cause) = cause(publish(&sink, &paid(&topic)).await);
    assert_eq!((is, cause.code), ("unknown", Code::SinkTimeout));
    let seen = sink.inspect().await.unwrap();
    assert!(says(&seen, Grade::Bad, "no_ack"), "{seen:?}");
}

#[tokio::test]
async fn another_stream_than_the_one_that_must_take_it_refuses_it() {
    let quay = shared().await;
    let (topic, other) = (quay.topic("g").await.unwrap(), quay.topic("g").await.unwrap());
    let sink = sink_of(&quay, Some(&stream_of(&other)));
    let (is, cause) = cause(publish(&sink, &paid(&topic)).await);
    assert_eq!((is, cause.code), ("retry", Code::TopicMissing), "{cause}");
    let answer = publish(&sink, &paid(&other)).await.unwrap();
    assert_eq!(answer.broker_id, Some(format!("{}:1", stream_of(&other))));
}

#[tokio::test]
async fn an_event_that_it_has_is_a_receipt_with_the_same_id() {
    let quay = shared().await;
    let topic = quay.topic("g").await.unwrap();
    let (sink, event) = (sink_of(&quay, None), paid(&topic));
    let first = publish(&sink, &event).await.unwrap();
    assert_eq!(publish(&sink, &event).await, Ok(first));
}

#[tokio::test]
async fn what_cannot_be_a_subject_is_rejected_and_nobody_else_suffers() {
    let quay = shared().await;
    let topic = quay.topic("g").await.unwrap();
    let wrong = ["a b", "order.*", ">", "$JS.API.INFO", "a..b"];
    let events: Vec<Event> =
        wrong.iter().copied().chain([&*topic]).map(|it| Event::new(it, "Paid", "{}")).collect();
    let mut answers = sink_of(&quay, None).publish(&events).await;
    answers.pop().unwrap().expect("the last is right");
    for answer in answers {
        let (is, cause) = cause(answer);
        assert_eq!((is, cause.code), ("reject", Code::BadEvent), "{cause}");
    }
}

fn says(seen: &Inspection, grade: Grade, word: &str) -> bool {
    seen.findings.iter().any(|it| it.grade == grade && it.detail.contains(word))
}

#[tokio::test]
async fn a_class_is_what_the_server_and_the_stream_tell() {
    let quay = shared().await;
    let topic = quay.topic("g").await.unwrap();
    let sink = sink_of(&quay, Some(&stream_of(&topic)));
    let seen = sink.inspect().await.unwrap();
    assert_eq!((seen.durability, seen.findings.len()), (Durability::Durable, 0), "{seen:?}");
    assert!(seen.levels.iter().any(|level| level.gauge == Gauge::Disk), "{seen:?}");

    let memory = quay.make(|it| it.storage = StorageType::Memory).await.unwrap();
    let seen = sink_of(&quay, Some(&stream_of(&memory))).inspect().await.unwrap();
    assert_eq!(seen.durability, Durability::BestEffort);
    assert!(says(&seen, Grade::Warn, "memory"), "{seen:?}");

    let missing = sink_of(&quay, Some("nobody-made-this")).inspect().await.unwrap();
    assert_eq!(missing.durability, Durability::BestEffort);
    assert!(says(&missing, Grade::Bad, "not there"), "{missing:?}");

    let nobody = sink_of(&quay, None);
    cause(publish(&nobody, &Event::new("nobody-takes-this", "T", "{}")).await);
    let seen = nobody.inspect().await.unwrap();
    assert!(says(&seen, Grade::Bad, "no stream takes"), "{seen:?}");
}

/// An account that is not told how its server writes claims nothing.
#[tokio::test]
async fn who_is_not_told_how_the_disk_is_written_claims_nothing() {
    let mut quay = shared().await;
    quay.url = need("nats").detail("plain").to_owned();
    let topic = quay.topic("g").await.unwrap();
    let sink = sink_of(&quay, None);
    publish(&sink, &paid(&topic)).await.unwrap();
    let seen = sink.inspect().await.unwrap();
    assert_eq!(seen.durability, Durability::BestEffort);
    assert!(says(&seen, Grade::Warn, "$SYS.REQ.SERVER.PING.JSZ"), "{seen:?}");
}

#[tokio::test]
async fn lag_and_the_dead_are_told() {
    let quay = shared().await;
    let topic = quay.topic("stock").await.unwrap();
    let sink = sink_of(&quay, None);
    for _ in 0..3 {
        publish(&sink, &paid(&topic)).await.unwrap();
    }
    let feed = quay.feed(Subscription::new("stock", &[&topic])).await.unwrap();
    let first = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
    let why = Cause::new(Code::BadEvent, "as the test says");
    feed.nack(first.handle, Nack::Dead(why)).await.unwrap();
    let seen = sink.inspect().await.unwrap();
    let level = |gauge| seen.levels.iter().find(|level| level.gauge == gauge);
    let lag = level(Gauge::Lag).unwrap();
    assert_eq!((lag.group.as_str(), lag.value), ("stock", 2.0), "{seen:?}");
    let dead = level(Gauge::Dead).unwrap();
    assert_eq!((dead.topic.as_str(), dead.value), (&*dead_subject(&topic), 1.0), "{seen:?}");
}

#[tokio::test]
async fn what_was_handed_out_again_is_told_until_it_is_ended() {
    let quay = shared().await;
    let topic = quay.topic("again").await.unwrap();
    let sink = sink_of(&quay, None);
    for key in ["a", "b", "c"] {
        publish(&sink, &paid(&topic).key(key)).await.unwrap();
    }
    let told = async |value: f64| {
        let began = Instant::now();
        loop {
            let seen = sink.inspect().await.unwrap();
            let level = seen.levels.iter().find(|it| it.gauge == Gauge::Retry);
            if level.is_some_and(|it| it.group == "again" && it.value == value) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not {value}: {seen:?}");
            sleep(LOOK).await;
        }
    };
    let feed = quay.feed(Subscription::new("again", &[&topic])).await.unwrap();
    let next = async || feed.next(PATIENCE).await.unwrap().expect("it comes");
    let out = [next().await, next().await, next().await];
    told(0.0).await;
    let [first, second, _] = &out;
    for come in [first, second] {
        feed.nack(come.handle, Nack::Again(Duration::ZERO)).await.unwrap();
    }
    let again = [next().await, next().await];
    assert_eq!(again.each_ref().map(|come| come.attempt), [2, 2]);
    told(2.0).await;
    feed.ack(again[0].handle).await.unwrap();
    told(1.0).await;
}

/// With one in hand each, a group as a whole has one: order for any number of feeds.
#[tokio::test]
async fn feeds_with_one_in_hand_share_one() {
    let quay = shared().await;
    let topic = quay.topic("one").await.unwrap();
    let sink = sink_of(&quay, None);
    let events = [paid(&topic), paid(&topic)];
    for event in &events {
        publish(&sink, event).await.unwrap();
    }
    let one = Subscription { most: 1, ..Subscription::new("one", &[&topic]) };
    let (feed, other) = (quay.feed(one.clone()).await.unwrap(), quay.feed(one).await.unwrap());
    let first = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
    assert_eq!(first.event.as_ref(), Ok(&events[0]));
    assert_eq!(other.next(Duration::from_secs(1)).await, Ok(None));
    feed.ack(first.handle).await.unwrap();
    feed.close().await;
    let second = other.next(Duration::from_secs(20)).await.unwrap().unwrap();
    assert_eq!(second.event.as_ref(), Ok(&events[1]));
    other.ack(second.handle).await.unwrap();
}

/// A follower waits for one that comes again, in one feed.
#[tokio::test]
async fn one_feed_keeps_a_key_in_order_over_a_nack() {
    let quay = shared().await;
    let topic = quay.topic("again").await.unwrap();
    let (sink, events) = (sink_of(&quay, None), [paid(&topic), paid(&topic), paid(&topic)]);
    for event in &events {
        publish(&sink, event).await.unwrap();
    }
    let feed = quay.feed(Subscription::new("again", &[&topic])).await.unwrap();
    let first = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
    feed.nack(first.handle, Nack::Again(Duration::from_secs(1))).await.unwrap();
    for event in &events {
        let next = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
        assert_eq!(next.event.as_ref(), Ok(event));
        feed.ack(next.handle).await.unwrap();
    }
}

#[tokio::test]
async fn a_feed_of_what_no_stream_takes_says_so_and_goes_on_when_one_does() {
    let quay = shared().await;
    let topic = format!("late-{}", event::EventId::new());
    let access = Access { url: Secret::new(quay.url.clone()), token: None, credentials: None };
    let feed = Arc::new(NatsFeed::new(&access, Subscription::new("g", &[&topic])).unwrap());
    let refusal = feed.next(Duration::from_secs(20)).await.unwrap_err();
    let Refusal::Retry(cause, _) = &refusal else { panic!("{refusal:?}") };
    assert!(cause.code == Code::TopicMissing && cause.detail.contains(&topic), "{cause}");
    let (name, subjects) = (stream_of(&topic), vec![topic.clone()]);
    let config = Config { name, subjects, ..Config::default() };
    quay.jetstream().await.unwrap().create_stream(config).await.unwrap();
    let (sink, event) = (sink_of(&quay, None), paid(&topic));
    publish(&sink, &event).await.unwrap();
    loop {
        match feed.next(Duration::from_secs(20)).await {
            Ok(come) => break assert_eq!(come.unwrap().event, Ok(event)),
            Err(refusal) => assert!(matches!(refusal, Refusal::Retry(..)), "{refusal:?}"),
        }
    }
}

/// Takes the next, whatever else the feed has to say.
async fn come(feed: &NatsFeed) -> Event {
    loop {
        match feed.next(Duration::from_secs(20)).await {
            Ok(come) => {
                let come = come.expect("it comes");
                feed.ack(come.handle).await.unwrap();
                return come.event.unwrap();
            }
            Err(refusal) => assert!(matches!(refusal, Refusal::Retry(..)), "{refusal:?}"),
        }
    }
}

#[tokio::test]
async fn a_subject_that_no_stream_takes_keeps_a_feed_from_no_other() {
    let quay = shared().await;
    let topic = quay.topic("g").await.unwrap();
    let [late, later] = ["late", "later"].map(|it| format!("{it}-{}", event::EventId::new()));
    let access = Access { url: Secret::new(quay.url.clone()), token: None, credentials: None };
    let subscription = Subscription::new("g", &[&late, &topic, &later]);
    let feed = NatsFeed::new(&access, subscription).unwrap();
    let refusal = feed.next(Duration::from_secs(20)).await.unwrap_err();
    let Refusal::Retry(cause, _) = &refusal else { panic!("{refusal:?}") };
    assert!(cause.code == Code::TopicMissing && !cause.detail.contains(&topic), "{cause}");
    assert!(cause.detail.contains(&late) && cause.detail.contains(&later), "{cause}");
    let (sink, first) = (sink_of(&quay, None), paid(&topic));
    publish(&sink, &first).await.unwrap();
    assert_eq!(come(&feed).await, first);

    // The stream that is there takes one of them from now on.
    let (jetstream, subjects) =
        (quay.jetstream().await.unwrap(), vec![topic.clone(), late.clone()]);
    let config = Config { name: stream_of(&topic), subjects, ..Config::default() };
    jetstream.update_stream(config).await.unwrap();
    let events = [paid(&late), paid(&topic)];
    for event in &events {
        publish(&sink, event).await.unwrap();
    }
    assert_eq!([come(&feed).await, come(&feed).await], events, "none was skipped");

    let config =
        Config { name: stream_of(&later), subjects: vec![later.clone()], ..Config::default() };
    jetstream.create_stream(config).await.unwrap();
    let last = paid(&later);
    publish(&sink, &last).await.unwrap();
    assert_eq!(come(&feed).await, last);
}

#[tokio::test]
async fn a_name_leads_to_a_subject() {
    let quay = shared().await;
    let topic = quay.topic("g").await.unwrap();
    let access = Access { url: Secret::new(quay.url.clone()), token: None, credentials: None };
    let options = quay.options(access, manner());
    let named = Naming::new(&topic).unwrap();
    let sink = Nats::new(broker::nats::Options { topic: named, ..options }).unwrap();
    publish(&sink, &paid("order.paid")).await.unwrap();
    let feed = quay.feed(Subscription::new("g", &[&topic])).await.unwrap();
    let come = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
    assert_eq!(come.event.unwrap().topic, "order.paid");
    assert_eq!(come.origin, format!("{}:1", stream_of(&topic)));
}
