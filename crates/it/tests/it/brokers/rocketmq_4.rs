//! RocketMQ 4: the contract of a sink on its real broker, and what is otherwise than in 5.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::Subscription;
use broker::rocketmq::Shape;
use event::{Code, Event, EventId, Feed, Gauge, Millis, Refusal, Secret, Sequence};
use it::quay::rocketmq_4::{READER, shared, strict};
use it::quay::rocketmq_remoting::RemotingQuay;
use it::quay::{Quay, WRONG, rocketmq_remoting};
use it::world::need;
use tokio::time::sleep;

use super::rocketmq::{PATIENCE, all, cause_of, manner};
use super::rocketmq_remoting::{closed, one_bad_event_is_nobody_elses_end, sink};

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(100);

it::sink_contract!(it::quay::rocketmq_4::shared, it::quay::rocketmq_4::own);

/// Makes a topic, and a feed of a group of its own.
async fn topic(quay: &RemotingQuay) -> (String, Arc<dyn Feed>) {
    let group = format!("group-{}", EventId::new());
    let topic = quay.topic(&group).await.expect("a topic is made");
    let feed = quay.feed(Subscription::new(group, &[&topic])).await.expect("it is right");
    (topic, feed)
}

#[tokio::test]
async fn normal_events_share_requests_and_one_bad_one_is_nobody_elses_end() {
    let quay = strict().await;
    let (topic, feed) = topic(&quay).await;
    one_bad_event_is_nobody_elses_end(&quay, &topic, &*feed).await;
}

/// Whether or not the broker would make one by itself.
#[tokio::test]
async fn a_topic_that_is_missing_is_answered_as_version_5_does() {
    let (five, four, strict) = (rocketmq_remoting::shared().await, shared().await, strict().await);
    for quay in [five, four, strict] {
        let missing = [Event::new(format!("missing-{}", EventId::new()), "T", "{}").key("k")];
        let (sink, until) = (sink(&quay, Shape::Fifo), Instant::now() + PATIENCE);
        // A name server that has never told its brokers takes its time on a busy machine.
        while cause_of(&sink.publish(&missing).await[0]) == Some(("down", Code::SinkDown)) {
            assert!(Instant::now() < until, "the name server does not tell its brokers");
        }
        for _ in 0..2 {
            let answers = sink.publish(&missing).await;
            assert_eq!(cause_of(&answers[0]), Some(("retry", Code::TopicMissing)), "{answers:?}");
        }
    }
}

#[tokio::test]
async fn a_topic_that_may_not_be_written_is_told_and_no_event_is_dead_for_it() {
    let quay = shared().await;
    let (topic, _) = topic(&quay).await;
    closed(&quay, &topic).await;
}

/// It would hand them out at once.
#[tokio::test]
async fn delayed_events_are_not_offered_and_the_cause_says_why() {
    let quay = shared().await;
    let (topic, feed) = topic(&quay).await;
    let due = Millis::now() + Duration::from_secs(3600);
    let later = Event::new(&*topic, "Later", "{}").header("deliver-at", due.to_string());
    let answers = sink(&quay, Shape::Delay).publish(&[later]).await;
    let Err(Refusal::Down(cause)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(cause.code, Code::ConfigInvalid, "{cause}");
    assert!(cause.detail.contains("older than RocketMQ 5"), "{cause}");
    let marker = Event::new(&*topic, "Marker", "{}");
    let answers = sink(&quay, Shape::Normal).publish(std::slice::from_ref(&marker)).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    assert_eq!(all(&*feed, 1).await, [marker]);
}

#[tokio::test]
async fn a_broker_that_asks_for_keys_lets_in_who_has_them_and_nobody_else() {
    let quay = strict().await;
    it::suite::sink::limits::a_stranger_is_refused_and_no_secret_is_told(&quay).await;
    let (topic, _) = topic(&quay).await;
    let right = quay.options(manner(), Shape::Fifo).access.keys.expect("it has keys").1;
    let of = |user: &str, secret: Secret| Some((user.to_owned(), secret));
    for (keys, expected) in [
        (None, "down"),
        (of("postbox", Secret::new(WRONG)), "down"),
        (of("nobody-knows-me", right.clone()), "down"),
        (of(READER, right.clone()), "retry"),
    ] {
        let mut options = quay.options(manner(), Shape::Fifo);
        options.access.keys = keys.clone();
        let other = broker::rocketmq::sink(options).expect("the options are right");
        let answers = other.publish(&[Event::new(&*topic, "T", "{}").key("k")]).await;
        assert_eq!(cause_of(&answers[0]), Some((expected, Code::AuthRefused)), "{answers:?}");
        // Who may not publish to one topic is let in all the same.
        let probed = other.probe().await;
        assert_eq!(probed.is_err(), expected == "down", "{keys:?}: {probed:?}");
    }
    let (sink, until) = (sink(&quay, Shape::Fifo), Instant::now() + PATIENCE);
    loop {
        let seen = sink.inspect().await.expect("it tells");
        if seen.levels.iter().any(|level| level.gauge == Gauge::Disk) {
            break;
        }
        // In the first second of its life such a broker fails when it is asked for its figures.
        assert!(Instant::now() < until, "{seen:?}");
        sleep(LOOK).await;
    }
}

#[tokio::test]
async fn the_official_java_client_of_version_4_reads_our_events() {
    let (quay, server) = (shared().await, need("rocketmq-4"));
    assert!(server.version.starts_with("4.9."), "{}", server.version);
    let (topic, _) = topic(&quay).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let event = |n: i64| {
        let event = Event::new(&*topic, "OrderPaid", format!("{{\"n\": {n}}}"));
        let event = event.key(format!("ключ {}", n % 3)).header("traceparent", trace);
        Event { sequence: Sequence::of(n), ..event }
    };
    let events: Vec<Event> = (1..=31).map(event).collect();
    let sink = sink(&quay, Shape::Fifo);
    // Those of a queue share a request; the last goes by itself.
    for part in [&events[..30], &events[30..]] {
        for (event, answer) in part.iter().zip(sink.publish(part).await) {
            let receipt = answer.expect("a receipt");
            assert_eq!(receipt.broker_id, Some(event.id.to_string()));
        }
    }
    let mut come: HashMap<String, Vec<EventId>> = HashMap::new();
    for line in foreign(&topic, events.len()).await {
        let (known, properties) = fields(&line);
        let id = properties["CE_id"].clone();
        let event = events.iter().find(|event| event.id.to_string() == id).expect("it was put");
        let key = event.key.clone().expect("all have keys");
        let keys = format!("{id} {}", key.replace(' ', "_"));
        assert_eq!(known[..4], [&*id, &*topic, "OrderPaid", &*keys], "{line}");
        assert_eq!(known[4].as_bytes(), event.payload.as_bytes(), "{line}");
        let sequence = event.sequence.expect("all have one").to_string();
        for (name, value) in [
            ("CE_specversion", "1.0"),
            ("CE_type", "OrderPaid"),
            ("CE_source", "orders"),
            ("CE_bizkey", &key),
            ("CE_sequence", &sequence),
            ("CE_contenttype", "application/json"),
            ("CE_traceparent", trace),
            ("traceparent", trace),
            ("__SHARDINGKEY", &key),
        ] {
            assert_eq!(properties.get(name).map(String::as_str), Some(value), "{name}: {line}");
        }
        assert_eq!(Millis::parse(&properties["CE_time"]), Some(event.created), "{line}");
        come.entry(key).or_default().push(event.id);
    }
    for (key, come) in come {
        let put = events.iter().filter(|event| event.key.as_ref() == Some(&key));
        assert_eq!(come, put.map(|event| event.id).collect::<Vec<_>>(), "{key}");
    }
}

/// Lets the official client read so many events; returns a line of each.
async fn foreign(topic: &str, count: usize) -> Vec<String> {
    let server = need("rocketmq-4");
    let mut reader = Command::new(server.detail("java"));
    reader.args(["-XX:TieredStopAtLevel=1", "-Xmx256m", "-Drocketmq.client.logUseSlf4j=true"]);
    reader.arg("-cp").arg(format!("{}/*", server.detail("client")));
    reader.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/rocketmq-4/Reader.java"));
    reader.args([server.detail("names"), topic, "foreign", &count.to_string()]);
    reader.env("POSTBOX_RUN", &server.run);
    let read = tokio::task::spawn_blocking(move || reader.output()).await;
    let read = read.expect("it ends").expect("java starts");
    let told = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success(), "{told}\n{}", String::from_utf8_lossy(&read.stderr));
    told.lines().map(str::to_owned).collect()
}

/// Parts what RocketMQ knows an event by from its properties.
fn fields(line: &str) -> (Vec<&str>, HashMap<String, String>) {
    let all: Vec<&str> = line.split('\t').collect();
    let pairs = all[5..].iter().filter_map(|pair| pair.split_once('='));
    let properties = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (all[..5].to_vec(), properties)
}
