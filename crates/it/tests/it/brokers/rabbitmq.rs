//! RabbitMQ: the suites, and what only it has: confirmations, returned events, alarms, queues that
//! refuse or are deleted, rights to a routing key, dead letters, and a reader in Python.

use std::process::Command;
use std::time::Duration;

use broker::manner::{Manner, Naming, Subscription};
use broker::rabbitmq::{FeedOptions, Options, RabbitMq, RabbitMqFeed};
use event::{
    Cause, Code, Delivery, Durability, Event, EventId, Feed, Finding, Gauge, Grade, Inspection,
    Nack, Refusal, Secret, Sink,
};
use it::quay::Quay;
use it::quay::rabbitmq::{RabbitMqQuay, own, shared};
use it::world::need;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

it::sink_contract!(it::quay::rabbitmq::shared, it::quay::rabbitmq::own);
it::feed_contract!(it::quay::rabbitmq::shared, it::quay::rabbitmq::own);

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

async fn one(sink: &RabbitMq, event: &Event) -> event::Answer {
    sink.publish(std::slice::from_ref(event)).await.remove(0)
}

#[tokio::test]
async fn an_event_that_no_queue_takes_waits_for_one_and_then_arrives() {
    let (quay, topic) = (shared().await, named("late"));
    let (sink, event) = (sink(&quay), Event::new(&*topic, "T", "{}"));
    let Err(Refusal::Retry(cause, None)) = one(&sink, &event).await else { panic!() };
    assert_eq!(cause.code, Code::TopicMissing);
    assert!(cause.detail.contains("312") && cause.detail.contains(&topic), "{cause}");
    quay.join("group", &topic).await.unwrap();
    one(&sink, &event).await.unwrap();
    assert_eq!(next(&feed(&quay, "group", &topic)).await.event.unwrap().id, event.id);
}

/// The library pairs a returned event with whichever confirmation comes next on its channel.
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
async fn an_exchange_that_is_not_there_rests_the_lane_until_it_is_made() {
    let quay = shared().await;
    let undeclared = || Options { declare: false, ..quay.options(manner()) };
    let sink = RabbitMq::new(undeclared()).unwrap();
    let event = Event::new("t", "T", "{}");
    for refusal in [one(&sink, &event).await.unwrap_err(), sink.probe().await.unwrap_err()] {
        let Refusal::Down(cause) = refusal else { panic!("{refusal:?}") };
        assert_eq!(cause.code, Code::TopicMissing);
        assert!(cause.detail.contains(&quay.exchange), "{cause}");
    }
    let topic = quay.topic("group").await.unwrap();
    sink.probe().await.unwrap();
    one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
    // Deleted while the connection stands: said by the broker to the one who publishes.
    let path = format!("exchanges/%2f/{}", quay.exchange);
    quay.ask(Method::DELETE, &path, None).await.unwrap();
    let Err(Refusal::Down(cause)) = one(&sink, &event).await else { panic!() };
    assert_eq!(cause.code, Code::TopicMissing);
    assert!(sink.probe().await.is_err());
    self::sink(&quay).probe().await.unwrap();
    sink.probe().await.unwrap();
}

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

#[tokio::test]
async fn a_full_queue_refuses_and_another_may_have_taken_the_event() {
    let quay = shared().await;
    let sink = sink(&quay);
    sink.probe().await.unwrap();
    let (queue, topic) = (named("full"), named("topic"));
    let arguments = json!({"x-queue-type": "quorum", "x-max-length": 1,
                           "x-overflow": "reject-publish"});
    let body = json!({"durable": true, "arguments": arguments});
    quay.ask(Method::PUT, &format!("queues/%2f/{queue}"), Some(body)).await.unwrap();
    let bindings = format!("bindings/%2f/e/{}/q/{queue}", quay.exchange);
    quay.ask(Method::POST, &bindings, Some(json!({"routing_key": topic}))).await.unwrap();
    quay.join("open", &topic).await.unwrap();
    let until = Instant::now() + PATIENCE;
    let refused = loop {
        let event = Event::new(&*topic, "T", "{}");
        match one(&sink, &event).await {
            Ok(_) => assert!(Instant::now() < until, "it never is full"),
            Err(Refusal::Unknown(cause)) => {
                assert_eq!(cause.code, Code::NotKept);
                break event.id;
            }
            other => panic!("{other:?}"),
        }
    };
    let open = feed(&quay, "open", &topic);
    loop {
        let come = next(&open).await;
        open.ack(come.handle).await.unwrap();
        if come.event.unwrap().id == refused {
            break;
        }
    }
    quay.ask(Method::DELETE, &format!("queues/%2f/{queue}/contents"), None).await.unwrap();
    one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
}

#[tokio::test]
async fn an_alarm_blocks_the_sink_and_it_goes_on_when_there_is_room() {
    let quay = own().await;
    let topic = quay.topic("group").await.unwrap();
    let manner = Manner { timeout: Duration::from_secs(3), ..manner() };
    let sink = RabbitMq::new(quay.options(manner)).unwrap();
    one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
    quay.call("rabbit_disk_monitor set_disk_free_limit [900000000000000]").unwrap();
    // The broker says so to the first who publishes, and may or may not have read that event.
    let first = Event::new(&*topic, "T", "{}");
    let until = Instant::now() + PATIENCE;
    while !matches!(one(&sink, &first).await, Err(Refusal::Down(_))) {
        assert!(Instant::now() < until, "it is never blocked");
    }
    let began = Instant::now();
    let events = [first.clone(), Event::new(&*topic, "T", "{}").key("k")];
    for answer in sink.publish(&events).await {
        let Err(Refusal::Down(cause)) = answer else { panic!("{answer:?}") };
        assert_eq!(cause.code, Code::BrokerFull);
        assert!(cause.detail.contains("disk"), "{cause}");
    }
    let Err(Refusal::Down(cause)) = sink.probe().await else { panic!() };
    assert_eq!(cause.code, Code::BrokerFull);
    assert!(began.elapsed() < Duration::from_secs(2), "it is known: {:?}", began.elapsed());
    let managed = RabbitMq::new(quay.options(self::manner())).unwrap();
    let managed = managed.with_management(&Secret::new(&*quay.management)).unwrap();
    // What the plugin tells of a node is some seconds old.
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = managed.inspect().await.unwrap();
        let told = |it: &Finding| it.grade == Grade::Bad && it.detail.contains("disk");
        let full = Inspection::total(&seen.levels, Gauge::Disk) == Some(1.0);
        if full && seen.findings.iter().any(told) {
            break;
        }
        assert!(Instant::now() < until, "{seen:?}");
        sleep(LOOK).await;
    }

    quay.call("rabbit_disk_monitor set_disk_free_limit [50000000]").unwrap();
    let until = Instant::now() + PATIENCE;
    while sink.probe().await.is_err() {
        assert!(Instant::now() < until, "it stays blocked");
        sleep(LOOK).await;
    }
    for answer in sink.publish(&events).await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn a_right_that_is_missing_rests_the_lane_and_one_to_a_topic_holds_that_topic_only() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let user = named("user");
    let body = json!({"password": "c4n4ry", "tags": ""});
    quay.ask(Method::PUT, &format!("users/{user}"), Some(body)).await.unwrap();
    let rights = format!("permissions/%2f/{user}");
    let none = json!({"configure": "", "write": "", "read": ".*"});
    quay.ask(Method::PUT, &rights, Some(none)).await.unwrap();
    let mut url: url::Url = quay.url.parse().unwrap();
    url.set_username(&user).unwrap();
    url.set_password(Some("c4n4ry")).unwrap();
    let url = Secret::new(url.as_str());
    let sink = RabbitMq::new(Options { url, ..quay.options(manner()) }).unwrap();
    let event = Event::new(&*topic, "T", "{}");
    let Err(Refusal::Down(cause)) = one(&sink, &event).await else { panic!() };
    assert_eq!(cause.code, Code::AuthRefused);
    assert!(!cause.detail.contains("c4n4ry"), "{cause}");

    let write = json!({"configure": "", "write": ".*", "read": ".*"});
    quay.ask(Method::PUT, &rights, Some(write)).await.unwrap();
    let topics = json!({"exchange": quay.exchange, "write": "^topic-", "read": ".*"});
    quay.ask(Method::PUT, &format!("topic-permissions/%2f/{user}"), Some(topics)).await.unwrap();
    // The broker remembers a right of a connection for a while.
    sink.close().await;
    // It ends the channel, and with it what is out beside this one event.
    let mut events: Vec<_> = (0..40).map(|_| Event::new(&*topic, "T", "{}")).collect();
    events.insert(17, Event::new("closed", "T", "{}"));
    let mut answers = sink.publish(&events).await;
    let answer = answers.remove(17);
    let Err(Refusal::Retry(cause, None)) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.code, Code::AuthRefused);
    assert!(cause.detail.contains("topic"), "{cause}");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    quay.ask(Method::DELETE, &format!("users/{user}"), None).await.unwrap();
}

#[tokio::test]
async fn a_virtual_host_that_is_not_there_is_told() {
    let quay = shared().await;
    let url = quay.url.replace("%2f", "nowhere");
    let options = Options { url: Secret::new(url), ..quay.options(manner()) };
    let Err(Refusal::Down(cause)) = RabbitMq::new(options).unwrap().probe().await else { panic!() };
    assert_eq!(cause.code, Code::AuthRefused);
    assert!(cause.detail.contains("nowhere"), "{cause}");
}

#[tokio::test]
async fn a_look_tells_the_class_what_waits_and_what_is_dead() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let managed = sink(&quay).with_management(&Secret::new(&*quay.management)).unwrap();
    for _ in 0..3 {
        one(&managed, &Event::new(&*topic, "T", "{}")).await.unwrap();
    }
    let feed = feed(&quay, "group", &topic);
    let first = next(&feed).await;
    let cause = Cause::new(Code::BadEvent, "no use");
    feed.nack(first.handle, Nack::Dead(cause)).await.unwrap();
    feed.close().await;
    let (queue, until) = (format!("group.{topic}"), Instant::now() + PATIENCE);
    loop {
        let seen = managed.inspect().await.unwrap();
        // One node has it, on its disk.
        assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
        let value = |gauge: Gauge, topic: &str| {
            let found = seen.levels.iter().find(|it| it.gauge == gauge && it.topic == topic);
            found.map(|level| level.value)
        };
        let told = (value(Gauge::Lag, &queue), value(Gauge::Dead, &format!("{queue}.dead")));
        if told == (Some(2.0), Some(1.0)) {
            break;
        }
        assert!(Instant::now() < until, "{seen:?}");
        sleep(LOOK).await;
    }
    let seen = sink(&quay).inspect().await.unwrap();
    assert_eq!((seen.durability, seen.levels.len()), (Durability::BestEffort, 0));
}

#[tokio::test]
async fn queues_behind_another_exchange_count_and_none_are_worth_nothing() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    let [bound, rest] = ["bound", "rest"].map(named);
    let arguments = json!({"alternate-exchange": quay.exchange});
    let body = json!({"type": "topic", "durable": true, "arguments": arguments});
    quay.ask(Method::PUT, &format!("exchanges/%2f/{rest}"), Some(body)).await.unwrap();
    for exchange in [&bound, &rest] {
        let options = Options { exchange: exchange.clone(), ..quay.options(manner()) };
        let sink = RabbitMq::new(options).unwrap();
        let sink = sink.with_management(&Secret::new(&*quay.management)).unwrap();
        if exchange == &bound {
            assert_eq!(sink.inspect().await.unwrap().durability, Durability::BestEffort);
            let onward = format!("bindings/%2f/e/{bound}/e/{}", quay.exchange);
            let all = json!({"routing_key": "#"});
            quay.ask(Method::POST, &onward, Some(all)).await.unwrap();
        }
        one(&sink, &Event::new(&*topic, "T", "{}")).await.unwrap();
        let seen = sink.inspect().await.unwrap();
        assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_for_the_management_plugin_is_told_without_it() {
    let quay = shared().await;
    let mut plugin: url::Url = quay.management.parse().unwrap();
    plugin.set_password(Some("c4n4ry")).unwrap();
    let sink = sink(&quay).with_management(&Secret::new(plugin.as_str())).unwrap();
    let Err(Refusal::Down(cause)) = sink.inspect().await else { panic!() };
    assert_eq!(cause.code, Code::AuthRefused);
    assert!(!cause.detail.contains("c4n4ry") && cause.detail.contains("monitoring"), "{cause}");
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

/// The official client of another language, and the official CloudEvents SDK.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_in_python_understands_what_we_publish() {
    let quay = shared().await;
    let topic = quay.topic("python").await.unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut bytes = Event::new(&*topic, "Picture", "").key("7");
    bytes.payload = event::Payload::Bytes((0..=255).collect::<Vec<u8>>().into());
    let events = [
        Event::new(&*topic, "OrderPaid", r#"{"total": 42, "who": "Grüße"}"#)
            .key("ключ €")
            .header("schema_version", "3")
            .header("traceparent", trace),
        bytes,
        Event::new(&*topic, "Said", "plain words").header("content-type", "text/plain"),
    ]
    .map(|event| Event { sequence: event::Sequence::of(4711), ..event });
    assert!(sink(&quay).publish(&events).await.iter().all(Result::is_ok));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/rabbitmq/read.py");
    let mut python = Command::new(need("rabbitmq").detail("python"));
    python.arg(script).arg(&quay.url).arg(format!("python.{topic}")).arg("3");
    let done = tokio::task::spawn_blocking(move || python.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).unwrap();
    let read: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in &events {
        let id = event.id.to_string();
        let seen = read.iter().find(|seen| seen["attributes"]["id"] == id).unwrap();
        let said = &seen["attributes"];
        assert_eq!(said["specversion"], "1.0");
        assert_eq!(said["source"], "orders");
        assert_eq!(said["type"], json!(event.kind));
        assert_eq!(said["topic"], json!(topic));
        assert_eq!(said["messagekey"], json!(id));
        assert_eq!(said["sequence"], "0000000000000004711");
        assert_eq!((&seen["message_id"], &seen["type"]), (&json!(id), &json!(event.kind)));
        assert_eq!(seen["delivery_mode"], 2);
        assert_eq!(seen["timestamp"], event.created.0.div_euclid(1000));
        let moment = said["time"].as_str().unwrap();
        assert_eq!(event::Millis::parse(moment), Some(event.created), "{moment}");
    }
    let of = |kind: &str| read.iter().find(|seen| seen["type"] == kind).unwrap();
    let paid = of("OrderPaid");
    assert_eq!(paid["data"], json!({"total": 42, "who": "Grüße"}));
    for name in ["subject", "partitionkey", "bizkey"] {
        assert_eq!(paid["attributes"][name], "ключ €");
    }
    assert_eq!(paid["attributes"]["schemaversion"], "3");
    assert_eq!(
        (&paid["attributes"]["traceparent"], &paid["traceparent"]),
        (&json!(trace), &json!(trace))
    );
    assert_eq!(paid["attributes"]["datacontenttype"], "application/json");
    assert_eq!(of("Picture")["attributes"]["datacontenttype"], "application/octet-stream");
    assert!(of("Picture")["body"].as_str().unwrap().starts_with("AAECAwQF"));
    assert_eq!(of("Said")["attributes"]["datacontenttype"], "text/plain");
}
