//! What only Kafka has: partitions, marks, topics with settings of their own, and facts that the
//! code relies on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use broker::kafka::{Kafka, KafkaFeed};
use broker::manner::{Manner, Subscription};
use event::{
    Answer, Cause, Code, Delivery, Durability, Event, EventId, Feed, Gauge, Grade, Nack, Refusal,
    Sink, Topics,
};
use futures_util::future::join_all;
use it::quay::Quay;
use it::quay::kafka::{KafkaQuay, own_with, shared};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

fn manner() -> Manner {
    Manner { timeout: Duration::from_secs(20), ..Manner::new("it") }
}

fn sink(quay: &KafkaQuay, manner: Manner) -> Kafka {
    Kafka::new(quay.options(quay.access(), manner)).expect("the options are right")
}

fn feed(quay: &KafkaQuay, group: &str, topic: &str) -> KafkaFeed {
    KafkaFeed::new(&quay.access(), Subscription::new(group, &[topic])).expect("they are right")
}

fn events(topic: &str, keys: usize, count: usize) -> Vec<Event> {
    let one =
        |n: usize| Event::new(topic, "Counted", format!("{n}")).key(format!("key-{}", n % keys));
    (0..count).map(one).collect()
}

async fn next(feed: &KafkaFeed) -> Delivery {
    let asking = async {
        loop {
            if let Ok(Some(delivery)) = feed.next(Duration::from_secs(1)).await {
                return delivery;
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("a delivery comes")
}

fn id(delivery: &Delivery) -> EventId {
    delivery.event.as_ref().expect("it is an event").id
}

/// Publishes until everything is taken.
async fn bring(sink: &Kafka, events: &[Event]) {
    let mut left = events.to_vec();
    let bringing = async {
        while !left.is_empty() {
            let answers = sink.publish(&left).await;
            let refused = |(_, answer): &(Event, Answer)| answer.is_err();
            left = left.into_iter().zip(answers).filter(refused).map(|(event, _)| event).collect();
        }
    };
    timeout(PATIENCE, bringing).await.expect("all is taken");
}

fn causes(answers: &[Answer]) -> Vec<&Cause> {
    let cause = |answer| match answer {
        &Err(Refusal::Retry(ref cause, _) | Refusal::Reject(ref cause)) => Some(cause),
        Err(Refusal::Down(cause) | Refusal::Unknown(cause)) => Some(cause),
        _ => None,
    };
    answers.iter().filter_map(cause).collect()
}

#[tokio::test]
async fn a_receipt_names_the_place_and_a_key_stays_in_its_partition() {
    let quay = shared().await;
    let topic = quay.make(4, &[]).await.unwrap();
    let events = events(&topic, 8, 64);
    let answers = sink(&quay, manner()).publish(&events).await;
    let mut places = vec![BTreeSet::new(); 8];
    for (n, answer) in answers.iter().enumerate() {
        let receipt = answer.as_ref().expect("it is taken");
        let place = receipt.broker_id.as_ref().expect("it has a place");
        let (partition, offset) = place.rsplit_once('/').expect("partition and offset");
        assert!(partition.starts_with(&topic) && offset.parse::<i64>().is_ok(), "{place}");
        places[n % 8].insert(partition.to_owned());
    }
    assert!(places.iter().all(|partitions| partitions.len() == 1), "{places:?}");
    let used: BTreeSet<_> = places.iter().flatten().collect();
    assert!(used.len() > 1, "the keys are spread: {used:?}");
}

#[tokio::test]
async fn a_key_does_not_pass_itself_by_way_of_another_topic() {
    let quay = shared().await;
    let (topic, other) = (quay.make(4, &[]).await.unwrap(), quay.make(1, &[]).await.unwrap());
    let missing = format!("missing-{}", EventId::new());
    let batch = [
        Event::new(&*topic, "First", "1").key("a"),
        Event::new(&*missing, "Second", "2").key("a"),
        Event::new(&*topic, "Third", "3").key("a"),
        Event::new(&*other, "Other", "4").key("b"),
        Event::new(&*topic, "Other", "5").key("b"),
    ];
    let answers = sink(&quay, manner()).publish(&batch).await;
    assert!(answers[0].is_ok() && answers[3].is_ok() && answers[4].is_ok(), "{answers:?}");
    let Err(Refusal::Retry(cause, _)) = &answers[1] else { panic!("{answers:?}") };
    assert!(cause.code == Code::TopicMissing && cause.detail.contains(&missing), "{cause}");
    assert_eq!(answers[2], Err(Refusal::Held));
}

#[tokio::test]
async fn a_topic_that_the_cluster_makes_by_itself_is_waited_for() {
    let quay = own_with(&["auto.create.topics.enable=true"]).await;
    let topic = format!("made-{}", EventId::new());
    let events = events(&topic, 3, 9);
    let answers = sink(&quay, manner()).publish(&events).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn what_a_compacted_topic_refuses_is_rejected_and_the_others_go_on() {
    let quay = shared().await;
    let topic = quay.make(1, &[("cleanup.policy", "compact")]).await.unwrap();
    let sink = sink(&quay, manner());
    let (mut batch, keyless) = (events(&topic, 3, 6), Event::new(&*topic, "Keyless", "{}"));
    batch.insert(3, keyless.clone());
    let answers = sink.publish(&batch).await;
    let Err(Refusal::Reject(cause)) = &answers[3] else { panic!("{answers:?}") };
    assert_eq!(cause.code, Code::SinkRefused, "{cause}");
    for answer in &answers {
        let dead = matches!(answer, Err(Refusal::Reject(_)));
        assert!(!dead || answer == &answers[3], "only the one at fault: {answers:?}");
    }
    batch.remove(3);
    bring(&sink, &batch).await;
}

/// Kafka asks for no more replicas in sync than a topic has: it takes the event, and the setting
/// alone promises nothing.
#[tokio::test]
async fn one_replica_is_no_two_whatever_is_asked_for() {
    let quay = shared().await;
    let topic = quay.make(1, &[("min.insync.replicas", "2")]).await.unwrap();
    let sink = sink(&quay, manner());
    let answers = sink.publish(&events(&topic, 2, 4)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let seen = sink.inspect().await.expect("the broker tells");
    assert_eq!(seen.durability, Durability::BestEffort, "{seen:?}");
}

#[tokio::test]
async fn a_batch_that_is_too_large_for_a_topic_goes_one_by_one() {
    let quay = shared().await;
    let topic = quay.make(1, &[("max.message.bytes", "2000")]).await.unwrap();
    let (sink, batch) = (sink(&quay, manner()), events(&topic, 2, 20));
    bring(&sink, &batch).await;
    let large = Event::new(&*topic, "Large", "x".repeat(3000)).key("large");
    let asked = [large];
    let rejected = async {
        loop {
            match &sink.publish(&asked).await[..] {
                [Err(Refusal::Reject(cause))] => break cause.code,
                [Err(_)] => {}
                answers => panic!("{answers:?}"),
            }
        }
    };
    assert_eq!(timeout(PATIENCE, rejected).await.expect("it is judged"), Code::TooLarge);
}

#[tokio::test]
async fn a_look_tells_what_a_receipt_is_worth_and_how_far_a_group_is() {
    let quay = shared().await;
    let (weak, safe) =
        (quay.make(1, &[]).await.unwrap(), quay.make(2, &[("flush.messages", "1")]).await.unwrap());
    let watched = sink(&quay, manner());
    bring(&watched, &events(&safe, 8, 12)).await;
    let seen = watched.inspect().await.expect("the broker tells");
    assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
    let group = format!("group-{}", EventId::new());
    let reader = feed(&quay, &group, &safe);
    for _ in 0..5 {
        let delivery = next(&reader).await;
        reader.ack(delivery.handle).await.expect("it was in hand");
    }
    let behind = async {
        loop {
            let seen = watched.inspect().await.expect("the broker tells");
            let of = |level: &&event::Level| level.group == group && level.topic == safe;
            if let Some(lag) = seen.levels.iter().find(of)
                && lag.value == 7.0
            {
                break lag.gauge;
            }
        }
    };
    assert_eq!(timeout(PATIENCE, behind).await.expect("the group is known"), Gauge::Lag);
    bring(&watched, &events(&weak, 1, 1)).await;
    let seen = watched.inspect().await.expect("the broker tells");
    assert_eq!(seen.durability, Durability::BestEffort, "the least counts: {seen:?}");
    let warned = |found: &event::Finding| {
        let names = found.what.contains(&weak) && found.detail.contains("factor of 3");
        found.grade == Grade::Warn && names
    };
    assert!(seen.findings.iter().any(warned), "{seen:?}");
}

#[tokio::test]
async fn every_topic_that_a_route_leads_to_is_judged_before_any_event() {
    let quay = shared().await;
    let word = format!("many-{}", EventId::new());
    for n in 100..220 {
        let name = format!("{word}.{n}");
        quay.make_named(&name, 1, &[("flush.messages", "1")]).await.unwrap();
    }
    quay.make_named(&format!("{word}.last"), 1, &[]).await.unwrap();
    let led = |routes: &[&str]| {
        let route = |route: &&str| (format!("{word}{route}").parse().unwrap(), true);
        let topics = vec![Topics::of(routes.iter().map(route).collect())];
        sink(&quay, Manner { topics, ..manner() })
    };
    let seen = led(&[".1*", ".200"]).worth().await.expect("the broker tells");
    assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
    let seen = led(&[".*"]).worth().await.expect("the broker tells");
    assert_eq!(seen.durability, Durability::BestEffort, "the last is the weakest");
    assert!(seen.findings[0].what.ends_with(".last"), "and told first: {seen:?}");
    let rest = seen.findings.last().expect("findings");
    assert!(rest.detail.starts_with("21 more"), "{rest:?}");
    let seen = led(&[".1*", ".nobody"]).inspect().await.expect("the broker tells");
    let missing = |it: &event::Finding| it.what.ends_with(".nobody") && it.grade == Grade::Warn;
    assert!(seen.findings.iter().any(missing), "{seen:?}");
}

#[tokio::test]
async fn before_anything_was_published_a_look_tells_what_a_new_topic_would_get() {
    let quay = shared().await;
    let seen = sink(&quay, manner()).inspect().await.expect("the broker tells");
    assert_eq!(seen.durability, Durability::BestEffort, "{seen:?}");
    let of = |found: &&event::Finding| found.what != "disk";
    let mut told = seen.findings.iter().filter(of);
    assert!(told.all(|found| found.what == "a new topic"), "{seen:?}");
}

#[tokio::test]
async fn an_ack_behind_an_open_event_outlasts_its_member() {
    let quay = shared().await;
    let topic = quay.make(1, &[]).await.unwrap();
    let batch = events(&topic, 6, 6);
    bring(&sink(&quay, manner()), &batch).await;
    let group = format!("group-{}", EventId::new());
    let first = feed(&quay, &group, &topic);
    let mut open = BTreeSet::new();
    for _ in 0..batch.len() {
        let delivery = next(&first).await;
        match id(&delivery) {
            it if it == batch[0].id || it == batch[3].id => drop(open.insert(it)),
            _ => first.ack(delivery.handle).await.expect("it was in hand"),
        }
    }
    first.close().await;
    let second = feed(&quay, &group, &topic);
    let mut again = BTreeSet::new();
    for _ in 0..2 {
        let delivery = next(&second).await;
        again.insert(id(&delivery));
        second.ack(delivery.handle).await.expect("it was in hand");
    }
    assert_eq!(again, open);
    assert_eq!(second.next(Duration::from_secs(1)).await, Ok(None), "only those were open");
    second.close().await;
    assert_eq!(committed(&quay, &group, &topic), Some(6), "the group is at the end");
}

#[tokio::test]
async fn a_group_that_is_beyond_the_end_of_a_log_takes_in_all_that_is_there() {
    let quay = shared().await;
    let topic = quay.make(1, &[]).await.unwrap();
    let batch = events(&topic, 3, 6);
    bring(&sink(&quay, manner()), &batch).await;
    let group = format!("group-{}", EventId::new());
    commit(&quay, &group, &topic, 100);
    let reader = feed(&quay, &group, &topic);
    let mut come = BTreeSet::new();
    while come.len() < batch.len() {
        let delivery = next(&reader).await;
        reader.ack(delivery.handle).await.expect("it was in hand");
        come.insert(id(&delivery));
    }
    assert_eq!(come, batch.iter().map(|event| event.id).collect());
    reader.close().await;
    assert_eq!(committed(&quay, &group, &topic), Some(6), "the group is where the log ends");
}

/// Says where a group is, as if its log had been longer.
fn commit(quay: &KafkaQuay, group: &str, topic: &str, offset: i64) {
    let telling: BaseConsumer = quay.config().set("group.id", group).create().unwrap();
    let mut marks = TopicPartitionList::new();
    marks.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    telling.commit(&marks, CommitMode::Sync).unwrap();
}

/// Asks where a group is, as any other tool does.
fn committed(quay: &KafkaQuay, group: &str, topic: &str) -> Option<i64> {
    let asking: BaseConsumer = quay.config().set("group.id", group).create().unwrap();
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition(topic, 0);
    let told = asking.committed_offsets(wanted, PATIENCE).unwrap();
    match told.elements()[0].offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

#[tokio::test]
async fn what_is_given_up_has_its_reason_beside_it_and_a_missing_place_keeps_it_in_hand() {
    let quay = shared().await;
    let topic = quay.make(1, &[]).await.unwrap();
    let batch = events(&topic, 1, 1);
    bring(&sink(&quay, manner()), &batch).await;
    let group = format!("group-{}", EventId::new());
    let reader = feed(&quay, &group, &topic);
    let delivery = next(&reader).await;
    let why = || Nack::Dead(Cause::new(Code::BadEvent, "no such order"));
    let refused = reader.nack(delivery.handle, why()).await;
    let Err(Refusal::Retry(cause, _)) = &refused else { panic!("{refused:?}") };
    assert!(cause.detail.contains(&format!("{topic}.dead")), "{cause}");
    reader.extend(delivery.handle, PATIENCE).await.expect("it is still in hand");
    quay.make_named(&format!("{topic}.dead"), 1, &[]).await.unwrap();
    let buried = async { while reader.nack(delivery.handle, why()).await.is_err() {} };
    timeout(PATIENCE, buried).await.expect("there is a place now");
    let place = format!("{topic}.dead");
    let undertaker = feed(&quay, &format!("{group}-dead"), &place);
    let found = next(&undertaker).await;
    assert_eq!(found.event.as_ref(), Ok(&batch[0]));
    assert_eq!(found.origin, format!("{place}/0/0"));
}

#[tokio::test]
async fn a_second_member_takes_over_what_the_first_leaves_and_stale_handles_end_nothing() {
    let quay = shared().await;
    let topic = quay.make(2, &[]).await.unwrap();
    let batch = events(&topic, 8, 16);
    bring(&sink(&quay, manner()), &batch).await;
    let group = format!("group-{}", EventId::new());
    let (first, second) = (feed(&quay, &group, &topic), feed(&quay, &group, &topic));
    let mut held = next(&first).await;
    let other = next(&second).await;
    // Until the second came, the first had both partitions, also what the second now holds.
    while id(&held) == id(&other) {
        held = next(&first).await;
    }
    first.close().await;
    assert!(first.ack(held.handle).await.is_err(), "it is not in hand any more");
    second.ack(other.handle).await.expect("it was in hand");
    let mut come = BTreeSet::from([id(&other)]);
    while come.len() < batch.len() {
        let delivery = next(&second).await;
        second.ack(delivery.handle).await.expect("it was in hand");
        come.insert(id(&delivery));
    }
    assert!(come.contains(&id(&held)), "what the first had comes to the second");
}

#[tokio::test]
async fn every_group_goes_on_after_a_restart_of_its_broker() {
    let quay = own_with(&[]).await;
    let topic = quay.make(4, &[]).await.unwrap();
    // The shortest session that a broker takes: it may be over before the broker is back.
    let lease = Duration::from_secs(6);
    let joined = |n| {
        let group = format!("group-{n}");
        let subscription = Subscription { lease, ..Subscription::new(&group, &[&*topic]) };
        KafkaFeed::new(&quay.access(), subscription).expect("they are right")
    };
    let feeds: Vec<_> = (0..20).map(joined).collect();
    let sink = sink(&quay, manner());
    for restarts in 0..2 {
        if restarts > 0 {
            quay.restart().await.unwrap();
        }
        let event = &events(&topic, 1, 1)[0];
        bring(&sink, std::slice::from_ref(event)).await;
        let taking = feeds.iter().map(|feed| async {
            loop {
                let delivery = next(feed).await;
                // What was lost with the session comes again.
                let _ = feed.ack(delivery.handle).await;
                if id(&delivery) == event.id {
                    return;
                }
            }
        });
        join_all(taking).await;
    }
}

#[tokio::test]
async fn a_broker_that_sleeps_gets_fewer_at_once_and_more_when_it_is_awake() {
    let quay = own_with(&[]).await;
    let topic = quay.make(4, &[]).await.unwrap();
    let soon = Duration::from_secs(5);
    let manner = Manner { timeout: soon, concurrency: 10_000, ..manner() };
    let gates = manner.gates.clone();
    let sink = sink(&quay, manner);
    let width = || gates.of(&quay.url, usize::MAX).width();
    let batch = events(&topic, 100, 1000);
    let widened = async |most: usize| {
        while width() < most {
            sink.publish(&batch).await;
        }
    };
    timeout(PATIENCE, widened(8)).await.expect("it grows");
    quay.pause(true).await.unwrap();
    let answers = sink.publish(&batch).await;
    let late = |cause: &&Cause| cause.code == Code::SinkTimeout;
    assert!(causes(&answers).iter().any(late), "{:?}", answers[0]);
    assert!(width() <= 4, "{}", width());
    quay.pause(false).await.unwrap();
    timeout(PATIENCE, widened(8)).await.expect("it grows again");
}

#[tokio::test]
async fn publishes_at_once_share_one_producer_and_each_gets_its_answers() {
    let quay = shared().await;
    let topic = quay.make(4, &[]).await.unwrap();
    let sink = Arc::new(sink(&quay, Manner { concurrency: 16, ..manner() }));
    let mut publishing = tokio::task::JoinSet::new();
    for caller in 0..6 {
        let (sink, topic) = (Arc::clone(&sink), topic.clone());
        publishing.spawn(async move {
            let key = |n: usize| format!("{caller}-{}", n % 3);
            let batch: Vec<Event> =
                (0..100).map(|n| Event::new(&*topic, "T", "{}").key(key(n))).collect();
            sink.publish(&batch).await
        });
    }
    let answers: Vec<Answer> = publishing.join_all().await.into_iter().flatten().collect();
    let places: BTreeSet<_> = answers
        .iter()
        .map(|answer| answer.as_ref().ok())
        .collect::<Vec<_>>()
        .into_iter()
        .flatten()
        .map(|receipt| receipt.broker_id.clone())
        .collect();
    assert_eq!((answers.len(), places.len()), (600, 600), "{:?}", causes(&answers));
}
