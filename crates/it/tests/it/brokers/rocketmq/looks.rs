//! What a receipt is worth by the broker's own settings, and what is told when there is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::Manner;
use broker::rocketmq::{RocketMq, Shape};
use event::{Code, Durability, Event, Feed, Finding, Gauge, Grade, Sink};
use it::answer::publish;
use it::quay::Quay;
use it::quay::rocketmq::own_with;
use it::quay::rocketmq_remoting::{self, RemotingQuay};

use super::{PATIENCE, all, cause_of, feed, manner, sink, topic};

/// Makes a sink that goes through the proxy, and one that does not.
fn sinks(quay: &RemotingQuay, manner: &Manner) -> [Arc<dyn Sink>; 2] {
    let through = quay.whole.options(manner.clone(), Shape::Fifo);
    let without = quay.options(manner.clone(), Shape::Fifo);
    [through, without].map(|it| broker::rocketmq::sink(it).expect("the options are right"))
}

#[tokio::test]
async fn a_look_tells_what_a_receipt_is_worth_by_the_brokers_own_settings() {
    let quay = own_with(&["broker.flushDiskType=SYNC_FLUSH"], None).await;
    let topic = topic(&quay, "FIFO").await;
    let (sink, feed) = (sink(&quay, Shape::Fifo), feed(&quay, &topic, true).await);
    let events: Vec<Event> =
        (0..3).map(|n| Event::new(&*topic, "T", "{}").key(n.to_string())).collect();
    assert!(sink.publish(&events).await.iter().all(Result::is_ok));
    all(&feed, 3).await;
    feed.close().await;
    assert!(sink.publish(&events[..1]).await.iter().all(Result::is_ok));
    let seen = sink.inspect().await.expect("it tells");
    assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
    assert!(seen.findings.iter().any(|it| it.detail.contains("inSyncReplicas=2")), "{seen:?}");
    let lag = seen.levels.iter().find(|level| level.gauge == Gauge::Lag && level.topic == topic);
    assert_eq!(lag.map(|level| level.value), Some(1.0), "{seen:?}");
    // Without a name server nothing is known, so nothing is claimed.
    let mut options = quay.options(manner(), Shape::Fifo);
    options.access.url = format!("rocketmq://{}", quay.address().expect("an address"));
    let blind = RocketMq::new(options).expect("the options are right");
    let seen = blind.inspect().await.expect("it tells");
    assert_eq!(seen.durability, Durability::BestEffort);
    assert!(seen.findings.iter().any(|it| it.detail.contains("?nameserver=")), "{seen:?}");
}

/// The code and the guide rely on this: by itself, the role of a broker promises nothing.
#[tokio::test]
async fn a_synchronous_master_without_a_slave_gives_receipts_and_is_not_called_replicated() {
    let quay = own_with(&["broker.brokerRole=SYNC_MASTER"], None).await;
    let (topic, sink) = (topic(&quay, "FIFO").await, sink(&quay, Shape::Fifo));
    let answers = sink.publish(&[Event::new(&*topic, "T", "{}").key("k")]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let seen = sink.inspect().await.expect("it tells");
    assert_eq!(seen.durability, Durability::BestEffort, "{seen:?}");
    let told = |it: &Finding| it.what == "replication" && it.detail.contains("waits for no copy");
    assert!(seen.findings.iter().any(told), "{seen:?}");
}

/// Else a slow disk can only be guessed.
#[tokio::test]
async fn a_timeout_that_is_not_longer_than_the_brokers_own_is_told() {
    let settings = ["broker.syncFlushTimeout=2500", "broker.slaveTimeout=4500"];
    let quay = rocketmq_remoting::own_with(&settings).await;
    for (millis, expected) in [(2501, true), (4500, true), (4501, false)] {
        let manner = Manner { timeout: Duration::from_millis(millis), ..manner() };
        for sink in sinks(&quay, &manner) {
            let seen = sink.worth().await.expect("it tells");
            let told = |it: &&Finding| it.what == "timeout" && it.detail.contains("4500 ms");
            let found = seen.findings.iter().find(told).map(|it| it.grade);
            assert_eq!(found, expected.then_some(Grade::Warn), "{millis}: {seen:?}");
        }
    }
}

/// It gives its disk no time at all.
#[tokio::test]
async fn a_disk_that_is_too_slow_gives_no_receipt_through_a_proxy_and_without() {
    let settings = ["broker.flushDiskType=SYNC_FLUSH", "broker.syncFlushTimeout=0"];
    let quay = rocketmq_remoting::own_with(&settings).await;
    for sink in sinks(&quay, &manner()) {
        let topic = topic(&quay.whole, "FIFO").await;
        let feed = feed(&quay.whole, &topic, true).await;
        let (mut put, until) = (Vec::new(), Instant::now() + PATIENCE);
        let slow = loop {
            assert!(Instant::now() < until, "its disk is never too slow");
            put.push(Event::new(&*topic, "T", "{}").key("k"));
            // A disk may be as fast as that.
            let answer = publish(&*sink, put.last().expect("it was put")).await;
            if answer.is_err() {
                break answer;
            }
        };
        assert_eq!(cause_of(&slow), Some(("unknown", Code::NotKept)), "{slow:?}");
        assert!(format!("{slow:?}").contains("FLUSH_DISK_TIMEOUT"), "{slow:?}");
        assert_eq!(all(&feed, put.len()).await, put, "it is there all the same");
        feed.close().await;
        let seen = sink.worth().await.expect("it tells");
        let told = |it: &Finding| it.what == "flushes" && it.grade == Grade::Bad;
        assert!(seen.findings.iter().any(told), "{seen:?}");
    }
}
