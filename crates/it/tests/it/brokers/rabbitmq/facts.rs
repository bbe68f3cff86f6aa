//! What a look at RabbitMQ tells.

use broker::manner::Manner;
use broker::rabbitmq::{Options, RabbitMq};
use event::{Cause, Code, Durability, Event, Feed, Gauge, Inspection, Nack, Refusal, Secret, Sink};
use it::quay::Quay;
use it::quay::rabbitmq::{own, shared};
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{LOOK, PATIENCE, feed, manner, named, next, one, sink};

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

/// All sinks of a broker share its gate. RabbitMQ tells how near its disk is to the alarm.
#[tokio::test]
async fn a_broker_whose_disk_is_near_its_alarm_gets_fewer_at_once_until_there_is_room() {
    let quay = own().await;
    let manner = Manner { concurrency: 4, ..manner() };
    let gate = manner.gates.of(&format!("amqp://{}//", quay.address().unwrap()), 4);
    let sink = RabbitMq::new(quay.options(manner)).unwrap();
    let sink = sink.with_management(&Secret::new(&*quay.management)).unwrap();
    // What the plugin tells of a node is some seconds old, and nothing when it has just started.
    let look = async |is: fn(usize) -> bool| {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = sink.inspect().await;
            let told = |seen: &Inspection| Inspection::total(&seen.levels, Gauge::Disk);
            let near = seen.as_ref().ok().and_then(told).filter(|_| is(gate.width()));
            if let Some(near) = near {
                return near;
            }
            assert!(Instant::now() < until, "{}: {seen:?}", gate.width());
            sleep(LOOK).await;
        }
    };
    assert!(look(|width| width == 4).await < 0.8);
    let nodes = quay.ask(Method::GET, "nodes", None).await.unwrap();
    let free = nodes[0]["disk_free"].as_u64().expect("a disk");
    let limit = |bytes: u64| {
        quay.call(&format!("rabbit_disk_monitor set_disk_free_limit [{bytes}]")).unwrap();
    };
    limit(free / 100 * 94);
    assert!(look(|width| width < 4).await > 0.8);
    limit(50_000_000);
    assert!(look(|width| width == 4).await < 0.8);
}
