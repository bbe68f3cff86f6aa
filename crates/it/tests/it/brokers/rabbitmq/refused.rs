//! What RabbitMQ refuses or cannot take, and how it goes on afterwards.

use std::time::Duration;

use broker::manner::Manner;
use broker::rabbitmq::{Options, RabbitMq};
use event::{Code, Event, Feed, Finding, Gauge, Grade, Inspection, Refusal, Secret, Sink};
use it::quay::Quay;
use it::quay::rabbitmq::{own, shared};
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{LOOK, PATIENCE, feed, manner, named, next, one, sink};

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
async fn a_virtual_host_that_is_not_there_is_told() {
    let quay = shared().await;
    let url = quay.url.replace("%2f", "nowhere");
    let options = Options { url: Secret::new(url), ..quay.options(manner()) };
    let Err(Refusal::Down(cause)) = RabbitMq::new(options).unwrap().probe().await else { panic!() };
    assert_eq!(cause.code, Code::AuthRefused);
    assert!(cause.detail.contains("nowhere"), "{cause}");
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
    let mut events: Vec<_> = (0..40).map(|_| Event::new(&*topic, "T", "{}")).collect();
    events.splice(1..1, (0..2).map(|_| Event::new("closed", "T", "{}")));
    let mut answers = sink.publish(&events).await;
    for answer in answers.drain(1..3) {
        let Err(Refusal::Retry(cause, None)) = answer else { panic!("{answer:?}") };
        assert_eq!(cause.code, Code::AuthRefused);
        assert!(cause.detail.contains("topic"), "{cause}");
    }
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    quay.ask(Method::DELETE, &format!("users/{user}"), None).await.unwrap();
}
