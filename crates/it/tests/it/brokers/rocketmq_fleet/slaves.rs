//! A master and its slave: without a copy there is no receipt, and whoever looks is told why.

use std::sync::Arc;
use std::time::Instant;

use broker::manner::Subscription;
use broker::rocketmq::Shape;
use event::{Code, Durability, Event, EventId, Grade, Refusal, Sink};
use it::quay::Quay;
use it::quay::rocketmq_fleet::{FIVE, FOUR, Fleet, master_and_slave};

use super::sink;
use crate::brokers::rocketmq::{PATIENCE, all, cause_of, manner};

/// 5.x says of a slave that is away only that it was too slow.
#[tokio::test]
async fn a_receipt_waits_for_the_slave_and_without_it_there_is_none() {
    let settings = [
        "broker.flushDiskType=SYNC_FLUSH",
        "broker.brokerRole=SYNC_MASTER",
        "broker.inSyncReplicas=2",
        "broker.slaveTimeout=1500",
    ];
    let fleet = master_and_slave(FIVE, &settings).await;
    let sinks = [true, false].map(|proxy| sink(&fleet, proxy, Shape::Fifo, manner()));
    a_slave_goes_and_comes_back(&fleet, &sinks, "FLUSH_SLAVE_TIMEOUT").await;

    fleet.set("inSyncReplicas", "1").await.expect("it is set");
    fleet.kill().expect("it dies");
    let topic = fleet.quay.topic("alone").await.expect("a topic is made");
    for sink in sinks {
        let answers = sink.publish(&[Event::new(&*topic, "T", "{}").key("k")]).await;
        assert!(answers[0].is_ok(), "nobody is waited for: {answers:?}");
        let seen = sink.worth().await.expect("it tells");
        assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
    }
}

/// 4.x has no `inSyncReplicas`: a `SYNC_MASTER` waits by itself.
#[tokio::test]
async fn in_version_4_a_synchronous_master_waits_for_its_slave_by_itself() {
    let fleet = master_and_slave(FOUR, &["broker.brokerRole=SYNC_MASTER"]).await;
    let sinks = [sink(&fleet, false, Shape::Fifo, manner())];
    a_slave_goes_and_comes_back(&fleet, &sinks, "SLAVE_NOT_AVAILABLE").await;
}

async fn a_slave_goes_and_comes_back(fleet: &Fleet, sinks: &[Arc<dyn Sink>], said: &str) {
    let group = format!("group-{}", EventId::new());
    let topic = fleet.quay.topic(&group).await.expect("a topic is made");
    let feed = fleet.quay.feed(Subscription::new(group, &[&topic])).await.expect("it is right");
    let event = || Event::new(&*topic, "T", "{}").key("k");
    for sink in sinks {
        copied(&**sink, event()).await;
    }
    fleet.kill().expect("it dies");
    let mut lonely = Vec::new();
    for sink in sinks {
        let (event, until) = (event(), Instant::now() + PATIENCE);
        loop {
            let answers = sink.publish(std::slice::from_ref(&event)).await;
            assert_eq!(cause_of(&answers[0]), Some(("unknown", Code::NotKept)), "{answers:?}");
            let Err(Refusal::Unknown(cause)) = &answers[0] else { panic!("{answers:?}") };
            if cause.detail.contains(said) {
                break;
            }
            assert!(Instant::now() < until, "{cause}");
        }
        copies_are_missing(&**sink, said).await;
        lonely.push(event.id);
    }
    fleet.is_known(false).await.expect("the name server lets go of it");
    for sink in sinks {
        copies_are_missing(&**sink, "no event gets one until a slave is there").await;
    }
    fleet.revive().await.expect("it comes back");
    for sink in sinks {
        copied(&**sink, event()).await;
    }
    // What had no receipt is there all the same.
    let come = all(&*feed, 3 * sinks.len()).await;
    assert!(lonely.iter().all(|id| come.iter().any(|event| event.id == *id)));
    feed.close().await;
}

/// Publishes until there is a receipt: a slave that was just started is still behind.
async fn copied(sink: &dyn Sink, event: Event) {
    let until = Instant::now() + PATIENCE;
    loop {
        let answers = sink.publish(std::slice::from_ref(&event)).await;
        match &answers[0] {
            Ok(_) => break,
            Err(Refusal::Unknown(cause)) if cause.code == Code::NotKept => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
        assert!(Instant::now() < until, "{answers:?}");
    }
    let seen = sink.worth().await.expect("it tells");
    assert_eq!(seen.durability, Durability::Replicated, "{seen:?}");
    let told = seen.findings.iter().find(|finding| finding.what == "replication");
    assert_eq!(told.expect("it is told").grade, Grade::Good, "{seen:?}");
}

/// A receipt, if there were one, would be worth the same; that there is none does not work.
async fn copies_are_missing(sink: &dyn Sink, why: &str) {
    let seen = sink.worth().await.expect("it tells");
    assert_eq!(seen.durability, Durability::Replicated, "{seen:?}");
    let mut missing = seen.findings.iter().filter(|finding| finding.what == "copies");
    assert!(missing.any(|it| it.grade == Grade::Bad && it.detail.contains(why)), "{seen:?}");
}
