//! A cluster of three: what its replicas are worth, and what the death of a leader, of too many
//! replicas, or of none that had a receipt means for a lane.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::kafka::Kafka;
use broker::manner::Manner;
use event::{
    Code, Durability, Event, EventId, Finding, Grade, Inspection, Refusal, Sink, Status, Topics,
};
use it::answer::{cause, paid, publish};
use it::quay::kafka_cluster::{Entry, KafkaCluster, cluster};
use it::site::{Rules, Site};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{FutureProducer, FutureRecord};
use relay::Demanding;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(100);

/// How long a sink waits for what gets no receipt.
const SHORT: Duration = Duration::from_secs(6);

/// What a topic is made with.
type Settings<'a> = &'a [(&'a str, &'a str)];

/// Two of three have an event by its receipt.
const SAFE: [(&str, &str); 1] = [("min.insync.replicas", "2")];

/// The first leads, and stays.
const FIRST_LEADS: &[i32] = &[1, 2, 3];

/// Each leads two partitions.
const EACH_LEADS: [&[i32]; 6] =
    [FIRST_LEADS, &[2, 3, 1], &[3, 1, 2], FIRST_LEADS, &[2, 1, 3], &[3, 2, 1]];

const RULES: Rules = Rules {
    lease: "30s",
    timeout: "9s",
    outbox: "batch = 100",
    route: "durability = \"replicated\"",
    policy: "backoff = \"200ms\"",
    admin: "off = true",
};

fn sink(cluster: &KafkaCluster, topic: &str, timeout: Duration) -> Kafka {
    let routes = vec![(topic.parse().expect("a topic is a pattern"), true)];
    let topics = vec![Topics::of(routes)];
    cluster.sink(Manner { timeout, topics, ..Manner::new("it") })
}

/// What is said of a topic.
fn told<'a>(seen: &'a Inspection, topic: &str) -> &'a Finding {
    let mut found = seen.findings.iter().filter(|finding| finding.what.ends_with(topic));
    found.next().unwrap_or_else(|| panic!("nothing of {topic}: {seen:?}"))
}

#[tokio::test]
async fn a_receipt_is_worth_what_the_replicas_and_their_settings_are() {
    let cluster = cluster().await.unwrap();
    let unclean = [SAFE[0], ("unclean.leader.election.enable", "true")];
    let cases: [(&[i32], Settings<'_>, Durability, Grade, &str); 5] = [
        (FIRST_LEADS, &SAFE, Durability::Replicated, Grade::Good, "3 replicas, of which 2 have it"),
        (&[2, 3], &SAFE, Durability::Replicated, Grade::Good, "2 replicas, of which 2 have it"),
        (FIRST_LEADS, &[], Durability::BestEffort, Grade::Warn, "min.insync.replicas = 1"),
        (FIRST_LEADS, &unclean, Durability::BestEffort, Grade::Warn, "unclean.leader.election"),
        (&[3], &SAFE, Durability::BestEffort, Grade::Warn, "one replica"),
    ];
    for (replicas, settings, worth, grade, word) in cases {
        let topic = cluster.make(&[replicas, replicas], settings).await.unwrap();
        let demanding =
            Demanding::new(Arc::new(sink(&cluster, &topic, PATIENCE)), Durability::Replicated);
        let seen = demanding.worth().await.expect("the cluster tells");
        assert_eq!(seen.durability, worth, "{seen:?}");
        let told = told(&seen, &topic);
        assert!(told.grade == grade && told.detail.contains(word), "{told:?}");
        let answer = publish(&demanding, &paid(&topic)).await;
        if worth == Durability::Replicated {
            answer.expect("the demand is met");
        } else {
            let (is, cause) = cause(answer);
            assert_eq!((is, cause.code), ("down", Code::DurabilityTooLow), "{cause}");
            assert!(cause.detail.contains(word), "{cause}");
        }
    }
}

#[tokio::test]
async fn a_lane_goes_on_when_a_leader_is_killed_and_nothing_that_had_a_receipt_is_lost() {
    let cluster = cluster().await.unwrap();
    let topic = cluster.make(&EACH_LEADS, &SAFE).await.unwrap();
    let site = Site::new().await.unwrap();
    let mut relay = site.relay_to("relay", &cluster.lines(), "*", &RULES).unwrap();
    let mut put = Vec::new();
    for node in [2, 3] {
        let sent = put.len() as u64;
        put.extend(put_more(&site, &topic, put.len()).await);
        site.until("on its way", PATIENCE, |counts| counts.sent > sent).await.unwrap();
        cluster.kill(node).unwrap();
        put.extend(put_more(&site, &topic, put.len()).await);
        let all = put.len() as u64;
        site.until("all is sent", PATIENCE, |counts| counts.sent == all).await.unwrap();
        let parts = cluster.parts(&topic).await.unwrap();
        assert!(parts.iter().all(|part| ![node, -1].contains(&part.leader)), "{parts:?}");
        cluster.revive(node).unwrap();
        cluster.has(&topic, "all in sync", |_, part| part.in_sync.len() == 3).await.unwrap();
    }
    let counts = site.counts().await.unwrap();
    assert!(counts.dead == 0 && counts.pending() == 0, "{counts:?}");
    assert!(!relay.has_ended().unwrap(), "{}", relay.log());
    let log = cluster.read(&topic).await.unwrap();
    receipts_are_true(&site, &log).await;
    is_in_order(&put, &log);
}

/// Puts events of all keys, which go on where those before them ended.
async fn put_more(site: &Site, topic: &str, from: usize) -> Vec<Event> {
    let event = |n: usize| Event::new(topic, "Counted", n.to_string()).key(format!("k{}", n % 60));
    let events: Vec<Event> = (from..from + 800).map(event).collect();
    for part in events.chunks(100) {
        site.outbox.put(part, None).await.unwrap();
    }
    events
}

/// Where a receipt says that an event is, there it is.
async fn receipts_are_true(site: &Site, log: &[Entry]) {
    let places: HashMap<&str, &str> =
        log.iter().map(|entry| (entry.place.as_str(), entry.id.as_str())).collect();
    for row in site.rows().await.unwrap() {
        assert_eq!(row.status, Status::Sent, "{row:?}");
        let (place, id) = (row.broker_id.as_deref().unwrap_or_default(), row.event.id.to_string());
        assert_eq!(places.get(place), Some(&id.as_str()), "{place} is another's: {row:?}");
    }
}

/// Each key came first in the order in which it was put, and all of it.
fn is_in_order(put: &[Event], log: &[Entry]) {
    let mut wanted: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for event in put {
        let key = event.key.as_deref().expect("all have keys");
        wanted.entry(key).or_default().push(event.id.to_string());
    }
    let (mut come, mut known): (BTreeMap<&str, Vec<String>>, _) = (BTreeMap::new(), HashSet::new());
    for entry in log.iter().filter(|entry| known.insert(entry.id.as_str())) {
        let key = entry.key.as_deref().expect("all have keys");
        come.entry(key).or_default().push(entry.id.clone());
    }
    assert_eq!(come, wanted);
}

#[tokio::test]
async fn with_too_few_replicas_there_is_no_receipt_until_they_are_back() {
    let cluster = cluster().await.unwrap();
    let topic = cluster.make(&[FIRST_LEADS], &SAFE).await.unwrap();
    // A receipt that comes late is no second copy.
    let (patient, sink) = (sink(&cluster, &topic, PATIENCE), sink(&cluster, &topic, SHORT));
    let (first, second) = (paid(&topic), paid(&topic));
    receipt(&patient, &first).await;
    cluster.kill(2).unwrap();
    cluster.kill(3).unwrap();
    cluster.has(&topic, "without its replicas", |_, part| part.in_sync == [1]).await.unwrap();

    let seen = sink.worth().await.expect("the first tells");
    assert_eq!(seen.durability, Durability::Replicated, "its settings are what they were");
    let said = told(&seen, &topic);
    let detail = "1 of 3 replicas are in sync, and 2 must be: it takes nothing";
    assert!(said.grade == Grade::Bad && said.detail == detail, "{said:?}");
    // What the broker says, and the client library keeps to itself: it asks again.
    assert_eq!(bare(&cluster, &topic).await, Err(RDKafkaErrorCode::NotEnoughReplicas));
    let (is, cause) = cause(publish(&sink, &second).await);
    assert_eq!((is, cause.code), ("unknown", Code::SinkTimeout), "{cause}");
    assert!(cause.detail.contains("than min.insync.replicas asks for"), "{cause}");

    let site = Site::new().await.unwrap();
    let _relay = site.relay_to("relay", &cluster.lines(), "*", &RULES).unwrap();
    let put = put_more(&site, &topic, 0).await;
    tried(&site, Code::SinkTimeout).await;
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.sent, counts.dead), (0, 0), "{counts:?}");
    assert_eq!(cluster.read(&topic).await.unwrap().len(), 1, "no broker took any");
    cluster.revive(3).unwrap();
    let all = put.len() as u64;
    site.until("all is sent", PATIENCE, |counts| counts.sent == all).await.unwrap();
    receipt(&patient, &second).await;
    let log = cluster.read(&topic).await.unwrap();
    receipts_are_true(&site, &log).await;
    let ids = [first.id, second.id].map(|id| id.to_string());
    let (own, relayed): (Vec<Entry>, Vec<Entry>) =
        log.into_iter().partition(|entry| ids.contains(&entry.id));
    assert_eq!(own.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ids, "each once");
    is_in_order(&put, &relayed);
}

/// Waits until an event was tried in vain, for this reason.
async fn tried(site: &Site, code: Code) {
    let trying = async {
        loop {
            let rows = site.rows().await.unwrap();
            let mut causes = rows.iter().filter_map(|row| row.last_error());
            if causes.any(|cause| cause.code == code) {
                return;
            }
            sleep(LOOK).await;
        }
    };
    timeout(PATIENCE, trying).await.expect("it is tried");
}

/// The leader writes an event down, and the replicas it needs sleep.
#[tokio::test]
async fn what_is_written_without_its_replicas_has_no_receipt_and_is_not_lost() {
    let cluster = cluster().await.unwrap();
    let topic = cluster.make(&[FIRST_LEADS], &SAFE).await.unwrap();
    // A receipt that comes late is no second copy.
    let (patient, sink) = (sink(&cluster, &topic, PATIENCE), sink(&cluster, &topic, SHORT));
    let (first, second) = (paid(&topic), paid(&topic));
    receipt(&patient, &first).await;
    for node in [2, 3] {
        cluster.pause(node, true).unwrap();
    }
    let (is, why) = cause(publish(&sink, &second).await);
    assert_eq!((is, why.code), ("unknown", Code::SinkTimeout), "{why}");
    for node in [2, 3] {
        cluster.pause(node, false).unwrap();
    }
    cluster.has(&topic, "all in sync", |_, part| part.in_sync.len() == 3).await.unwrap();
    receipt(&patient, &second).await;
    let log = cluster.read(&topic).await.unwrap();
    let ids: Vec<&str> = log.iter().map(|entry| entry.id.as_str()).collect();
    let [first, second] = [first.id, second.id].map(|id| id.to_string());
    assert_eq!(ids, [&*first, &*second, &*second], "what may have arrived has");
}

/// Publishes until there is a receipt, as a relay does.
async fn receipt(sink: &Kafka, event: &Event) {
    let until = Instant::now() + PATIENCE;
    while let Err(refusal) = publish(sink, event).await {
        assert!(!matches!(refusal, Refusal::Reject(_)), "{refusal:?}");
        assert!(Instant::now() < until, "{refusal:?}");
        sleep(LOOK).await;
    }
}

/// Publishes as nobody should: once, and by a client that remembers nothing.
async fn bare(cluster: &KafkaCluster, topic: &str) -> Result<(), RDKafkaErrorCode> {
    let mut config = cluster.config();
    let bare: FutureProducer = config.set("acks", "all").set("retries", "0").create().unwrap();
    let key = EventId::new().to_string();
    let told = bare.send(FutureRecord::to(topic).payload("{}").key(&key), PATIENCE).await;
    let code = |error: rdkafka::error::KafkaError| error.rdkafka_error_code().expect("a code");
    told.map(drop).map_err(|(error, _)| code(error))
}
