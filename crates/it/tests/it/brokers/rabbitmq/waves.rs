//! Events that go to RabbitMQ in waves: what becomes of one concerns no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use broker::gate::{Gate, Gates};
use broker::manner::Manner;
use broker::rabbitmq::{Options, RabbitMq, RabbitMqFeed};
use event::{Answer, Code, Event, EventId, Feed, Refusal, Secret, Sink};
use it::line::Line;
use it::quay::Quay;
use it::quay::rabbitmq::{RabbitMqQuay, own, shared};
use reqwest::Method;
use tokio::time::{Instant, sleep};
use url::Url;

use super::{LOOK, PATIENCE, feed, manner, next, one, sink};

/// What a server takes that was made small.
const SMALL: usize = 10_000;

/// Starts a server where an event of more than so many bytes ends its channel, and with it what is
/// out beside it.
async fn small() -> RabbitMqQuay {
    let quay = own().await;
    quay.call(&format!("persistent_term put [max_message_size,{SMALL}]")).unwrap();
    quay
}

fn large(topic: &str) -> Event {
    Event::new(topic, "T", "x".repeat(SMALL + 1))
}

/// Makes a sink, and publishes with it until as many as that are let through at once.
async fn wide(
    quay: &RabbitMqQuay,
    url: &Url,
    timeout: Duration,
    width: usize,
) -> (RabbitMq, Arc<Gate>) {
    let gates = Gates::default();
    let manner = Manner { timeout, gates: gates.clone(), ..manner() };
    let options = Options { url: Secret::new(url.as_str()), ..quay.options(manner) };
    let sink = RabbitMq::new(options).unwrap();
    let (host, port) = (url.host_str().unwrap(), url.port().unwrap());
    let gate = gates.of(&format!("amqp://{host}:{port}//"), 256);
    let topic = quay.topic("others").await.unwrap();
    let until = Instant::now() + PATIENCE;
    while gate.width() < width {
        let events: Vec<_> = (0..256).map(|_| Event::new(&*topic, "T", "{}")).collect();
        assert!(sink.publish(&events).await.iter().all(Result::is_ok));
        assert!(Instant::now() < until, "it stays at {}", gate.width());
    }
    (sink, gate)
}

fn url(quay: &RabbitMqQuay) -> Url {
    quay.url.parse().unwrap()
}

/// Makes a line to a server; returns it, and the address that leads over it.
async fn detour(quay: &RabbitMqQuay) -> (Line, Url) {
    let (line, mut url) = (Line::open(quay.address().unwrap()).await.unwrap(), url(quay));
    url.set_port(Some(line.address().port())).unwrap();
    (line, url)
}

/// Makes `each` events of every key, one key after another; the payload is the place in its key.
fn keyed(topic: &str, keys: usize, each: usize) -> Vec<Event> {
    let event =
        |n: usize| Event::new(topic, "T", (n / keys).to_string()).key((n % keys).to_string());
    (0..keys * each).map(event).collect()
}

/// Takes so many different events in; returns those of each key in the order of their first coming.
async fn take(feed: &RabbitMqFeed, count: usize) -> HashMap<String, Vec<String>> {
    let (mut seen, mut keys) = (HashSet::<EventId>::new(), HashMap::<_, Vec<_>>::new());
    while seen.len() < count {
        let come = next(feed).await;
        let event = come.event.unwrap();
        feed.ack(come.handle).await.unwrap();
        if seen.insert(event.id) {
            let payload = String::from_utf8(event.payload.as_bytes().to_vec()).unwrap();
            keys.entry(event.key.unwrap_or_default()).or_default().push(payload);
        }
    }
    keys
}

fn may_have_arrived(answer: &Answer) -> bool {
    let told = "it may have arrived";
    matches!(answer, Err(Refusal::Unknown(cause)) if cause.detail.contains(told))
}

fn says(answer: &Answer, word: &str) -> bool {
    format!("{answer:?}").contains(word)
}

#[tokio::test]
async fn among_many_at_once_only_those_without_a_queue_come_back() {
    let quay = shared().await;
    let (topic, sink) = (quay.topic("group").await.unwrap(), sink(&quay));
    let event = |n: usize| {
        let topic = if n.is_multiple_of(3) { format!("nobody.{n}") } else { topic.clone() };
        Event::new(topic, "T", "{}").key(n.to_string())
    };
    for _ in 0..5 {
        let events: Vec<_> = (0..90).map(event).collect();
        for (n, answer) in sink.publish(&events).await.iter().enumerate() {
            match answer {
                Ok(_) => assert!(!n.is_multiple_of(3), "{n} has no queue"),
                Err(Refusal::Retry(cause, None)) => {
                    assert!(cause.detail.contains(&format!("\"nobody.{n}\"")), "{n}: {cause}");
                }
                other => panic!("{n}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn one_that_ends_a_channel_takes_nothing_and_no_order_from_the_others_on_it() {
    const KEYS: usize = 40;
    let quay = small().await;
    let topic = quay.topic("group").await.unwrap();
    let (sink, _) = wide(&quay, &url(&quay), Duration::from_secs(10), 2 * KEYS).await;
    let mut events = keyed(&topic, KEYS, 3);
    events.insert(17, large(&topic));
    let mut answers = sink.publish(&events).await;
    let fault = answers.remove(17);
    let Err(Refusal::Reject(cause)) = fault else { panic!("{fault:?}") };
    assert_eq!(cause.code, Code::TooLarge);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let keys = take(&feed(&quay, "group", &topic), 3 * KEYS).await;
    assert_eq!(keys.len(), KEYS);
    for (key, order) in keys {
        assert_eq!(order, ["0", "1", "2"], "{key}");
    }
}

#[tokio::test]
async fn what_has_no_channel_for_a_second_offer_may_have_arrived_and_rests_nobody() {
    let (quay, width) = (small().await, Duration::from_secs(10));
    let topic = quay.topic("group").await.unwrap();
    let mut url = url(&quay);
    url.set_query(Some("channel_max=4"));
    let (sink, _) = wide(&quay, &url, width, 80).await;
    let mut events = keyed(&topic, 40, 1);
    events.insert(17, large(&topic));
    let answers = sink.publish(&events).await;
    assert!(answers.iter().any(|answer| says(answer, "channel_max")), "{answers:?}");
    let judged = |answer: &Answer| {
        answer.is_ok() || may_have_arrived(answer) || matches!(answer, Err(Refusal::Reject(_)))
    };
    assert!(answers.iter().all(judged), "{answers:?}");
    one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
}

#[tokio::test]
async fn what_was_written_before_the_line_fell_silent_may_have_arrived() {
    let quay = small().await;
    let topic = quay.topic("group").await.unwrap();
    let (line, url) = detour(&quay).await;
    let (sink, _) = wide(&quay, &url, Duration::from_secs(6), 40).await;
    let mut events = keyed(&topic, 20, 1);
    events.insert(10, large(&topic));
    line.hold_answers(true);
    let publishing = async { sink.publish(&events).await };
    let falling_silent = async {
        take(&feed(&quay, "group", &topic), 10).await;
        // It learns that its channel ended, and gets nothing more across.
        line.hold(true);
        line.hold_answers(false);
    };
    let (answers, ()) = tokio::join!(publishing, falling_silent);
    assert!(answers.iter().any(|answer| says(answer, "in time")), "{answers:?}");
    let judged = |answer: &Answer| answer.is_ok() || may_have_arrived(answer);
    assert!(answers.iter().all(judged), "{answers:?}");
}

/// A quorum queue whose process stands still confirms nothing, like one without its majority. The
/// broker lets a whole channel wait for such a queue if it is new to it. The first event goes on a
/// channel that knows it, because such a one says what is out on it; the second on another.
#[tokio::test]
async fn a_queue_that_does_not_confirm_keeps_nobody_else_waiting() {
    const KEYS: usize = 40;
    let quay = own().await;
    let topic = quay.topic("group").await.unwrap();
    let silent = quay.topic("silent").await.unwrap();
    let (sink, gate) = wide(&quay, &url(&quay), Duration::from_secs(30), 2 * KEYS).await;
    let sink = Arc::new(sink);
    one(&sink, &Event::new(&*silent, "T", "{}")).await.unwrap();
    quay.call(&format!("sys suspend ['%2F_silent.{silent}']")).unwrap();
    let (feed, width) = (feed(&quay, "group", &topic), gate.width());
    for is_known in [true, false] {
        let mut events = keyed(&topic, KEYS, 5);
        events.insert(0, Event::new(&*silent, "T", "{}"));
        let publisher = Arc::clone(&sink);
        let publishing = tokio::spawn(async move { publisher.publish(&events).await });
        // All the others come, with their followers, while one is out.
        let come = take(&feed, 5 * KEYS).await;
        assert!(come.values().all(|order| *order == ["0", "1", "2", "3", "4"]), "{come:?}");
        if is_known {
            assert!(gate.width() > width / 8, "{} of {width}", gate.width());
            unconfirmed(&quay, 1).await;
        }
        assert!(!publishing.is_finished(), "it is out no more");
        let mut answers = publishing.await.unwrap();
        let Err(Refusal::Unknown(cause)) = answers.remove(0) else { panic!("{answers:?}") };
        assert_eq!(cause.code, Code::SinkTimeout);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        if is_known {
            // Its channel is closed: nobody else goes out on it.
            unconfirmed(&quay, 0).await;
        }
    }
    one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
}

/// Waits until the channels of the broker have so many events that are not confirmed.
async fn unconfirmed(quay: &RabbitMqQuay, count: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        let channels = quay.ask(Method::GET, "channels", None).await.unwrap();
        let out = channels.as_array().unwrap().iter();
        let out: u64 = out.filter_map(|channel| channel["messages_unconfirmed"].as_u64()).sum();
        if out == count {
            return;
        }
        assert!(Instant::now() < until, "{channels}");
        sleep(LOOK).await;
    }
}

/// On a line that takes nothing some are not written when their time is over. The library would
/// write them on channels that it has closed by then, and the broker would end the connection.
#[tokio::test]
async fn what_could_not_be_written_ends_nothing_that_comes_after_it() {
    const ONCE: usize = 10;
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let (line, url) = detour(&quay).await;
    let (sink, _) = wide(&quay, &url, Duration::from_secs(3), 2 * ONCE).await;
    let event = |mib: usize| Event::new(&*topic, "T", "x".repeat(mib << 20));
    // As many channels are open now.
    let events: Vec<_> = (0..ONCE).map(|_| event(1)).collect();
    assert!(sink.publish(&events).await.iter().all(Result::is_ok));
    line.hold(true);
    let events: Vec<_> = (0..ONCE).map(|_| event(4)).collect();
    let answers = sink.publish(&events).await;
    assert!(answers.iter().all(may_have_arrived), "{answers:?}");
    line.hold(false);
    let answer = one(&sink, &Event::new(&*topic, "T", "{}")).await;
    assert!(answer.is_ok(), "{answer:?}");
}
