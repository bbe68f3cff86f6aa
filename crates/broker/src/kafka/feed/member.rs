//! The thread of a feed: it polls, tells the group what is ended, and goes along with rebalances.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use event::{Cause, Code, Refusal};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message, OwnedMessage};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::{Place, Shared};
use crate::kafka::access::Cluster;
use crate::kafka::live::setting;
use crate::kafka::marks::Mark;
use crate::kafka::part::Part;
use crate::kafka::refusal::refusal;
use crate::manner::Subscription;

/// How long a poll waits for something; acks are told to the group at least that often.
const POLL: Duration = Duration::from_millis(50);
/// How long acks are gathered before the group is told.
const GATHER: Duration = Duration::from_millis(20);
/// How long to rest before the group is joined anew.
const REST: Duration = Duration::from_secs(1);
/// How long after its session could end a member whose brokers went out of reach may be without
/// partitions before a fresh one takes its place: the library sometimes finds no broker any more,
/// though they are back.
const ASTRAY: Duration = Duration::from_secs(20);
/// How many times as many as may be in hand may wait in each partition, and how many at the least:
/// to let no more come throws away what is on its way, which then has to be read again.
const BEHIND: usize = 4;
const ENOUGH: usize = 1024;
/// How many bytes may wait in each partition; the one that comes on top is let in.
const BYTES: usize = 8 << 20;

/// A running thread.
pub(super) struct Member(oneshot::Receiver<()>);

impl Member {
    pub(super) fn start(
        shared: Arc<Shared>,
        cluster: &Cluster,
        subscription: &Subscription,
    ) -> Member {
        let (config, subscription) = (config(cluster, subscription), subscription.clone());
        let (tell, left) = oneshot::channel();
        thread::spawn(move || {
            while !closed(&shared) {
                run(&shared, &config, &subscription);
            }
            // Nobody may be waiting for it.
            let _ = tell.send(());
        });
        Member(left)
    }

    /// Waits until the group is left.
    pub(super) async fn left(self) {
        let _ = self.0.await;
    }
}

fn closed(shared: &Shared) -> bool {
    shared.state().closed
}

/// Is a member until the feed is closed, or the library gives up.
fn run(shared: &Arc<Shared>, config: &ClientConfig, subscription: &Subscription) {
    let context = Context { shared: Arc::clone(shared), timeout: subscription.timeout };
    let topics: Vec<&str> = subscription.topics.iter().map(String::as_str).collect();
    let joined = config.create_with_context(context).map_err(|error| setting(&error));
    let joined = joined.and_then(|consumer: BaseConsumer<Context>| {
        let told = |error: KafkaError| Cause::new(Code::ConfigInvalid, error);
        consumer.subscribe(&topics).map(|()| consumer).map_err(told)
    });
    let consumer = match joined {
        Ok(consumer) => consumer,
        Err(cause) => {
            trouble(shared, Refusal::Down(cause));
            return thread::sleep(REST);
        }
    };
    let (mut told, mut away) = (Instant::now(), None);
    let mut paused = Vec::new();
    let patience = session(subscription) + ASTRAY;
    while !closed(shared) && !is_astray(&consumer, &mut away, patience) {
        let mut full = false;
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(record)) => full = arrive(shared, &record),
            Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                trouble(shared, judge(code, subscription));
                break;
            }
            Some(Err(error)) => {
                if let Some(code) = error.rdkafka_error_code().filter(|code| is_trouble(*code)) {
                    if code == RDKafkaErrorCode::AllBrokersDown {
                        away.get_or_insert_with(Instant::now);
                    }
                    trouble(shared, judge(code, subscription));
                }
            }
        }
        if full || told.elapsed() >= GATHER {
            tell(shared, &consumer, None, CommitMode::Async);
            balance(shared, &consumer, &mut paused);
            told = Instant::now();
        }
    }
    tell(shared, &consumer, None, CommitMode::Sync);
    // Dropping it leaves the group.
}

/// Tells whether a member whose brokers went out of reach has not found its way back.
fn is_astray(
    consumer: &BaseConsumer<Context>,
    away: &mut Option<Instant>,
    patience: Duration,
) -> bool {
    if away.is_none_or(|since| since.elapsed() < patience) {
        return false;
    }
    let alone = consumer.assignment().is_ok_and(|parts| parts.count() == 0);
    if alone {
        tracing::info!("the group is joined anew: its brokers were out of reach");
    } else {
        *away = None;
    }
    alone
}

/// Puts in what came; tells whether enough of its partition waits.
fn arrive(shared: &Shared, record: &BorrowedMessage<'_>) -> bool {
    let place = (record.topic().to_owned(), record.partition());
    let arrived = shared.state().arrive(&place, record.detach());
    let Some((is_full, back_from)) = arrived else { return false };
    if let Some(expected) = back_from {
        tracing::warn!(
            topic = place.0,
            partition = place.1,
            expected,
            offset = record.offset(),
            "Kafka goes on at an earlier offset: the topic has lost its end, or was made anew; \
             what is there is taken in, and some of it may come again"
        );
    }
    shared.ready.notify_waiters();
    is_full
}

/// Tells the group what is ended: of all partitions, or of those that go.
fn tell(
    shared: &Shared,
    consumer: &BaseConsumer<Context>,
    only: Option<&TopicPartitionList>,
    mode: CommitMode,
) {
    let mut marks = TopicPartitionList::new();
    for ((topic, partition), part) in &mut shared.state().parts {
        let wanted = only.is_none_or(|only| only.find_partition(topic, *partition).is_some());
        if let Some(mark) = wanted.then(|| part.mark()).flatten() {
            let mut element = marks.add_partition(topic, *partition);
            element.set_metadata(mark.text());
            if element.set_offset(Offset::Offset(mark.offset)).is_err() {
                part.untold();
            }
        }
    }
    if marks.count() > 0 && consumer.commit(&marks, mode).is_err() {
        untold(shared, &marks);
    }
}

fn untold(shared: &Shared, marks: &TopicPartitionList) {
    let mut state = shared.state();
    for place in places(marks) {
        if let Some(part) = state.parts.get_mut(&place) {
            part.untold();
        }
    }
}

/// Tells whether of a partition waits what is enough for whoever may have so many in hand, divided
/// by `by`, or so much that it could not be remembered once it is ended.
pub(super) fn is_full(part: &Part<OwnedMessage>, most: usize, by: usize) -> bool {
    let many = ENOUGH.max(most * BEHIND) / by;
    part.len() >= many || part.bytes() >= BYTES / by || part.is_wide()
}

/// Lets no more come of partitions of which enough waits.
fn balance(shared: &Shared, consumer: &BaseConsumer<Context>, paused: &mut Vec<Place>) {
    let (mut stop, mut go) = (TopicPartitionList::new(), TopicPartitionList::new());
    let state = shared.state();
    paused.retain(|place| state.parts.contains_key(place));
    for (place, part) in &state.parts {
        let is_paused = paused.contains(place);
        if !is_paused && is_full(part, state.most, 1) {
            stop.add_partition(&place.0, place.1);
        } else if is_paused && !is_full(part, state.most, 2) {
            go.add_partition(&place.0, place.1);
        }
    }
    drop(state);
    if stop.count() > 0 && consumer.pause(&stop).is_ok() {
        paused.extend(places(&stop));
    }
    if go.count() > 0 && consumer.resume(&go).is_ok() {
        let gone: Vec<Place> = places(&go).collect();
        paused.retain(|place| !gone.contains(place));
    }
}

fn places(list: &TopicPartitionList) -> impl Iterator<Item = Place> {
    let place = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
        (element.topic().to_owned(), element.partition())
    };
    list.elements().into_iter().map(place).collect::<Vec<_>>().into_iter()
}

fn trouble(shared: &Shared, refusal: Refusal) {
    shared.state().trouble = Some(refusal);
    shared.ready.notify_waiters();
}

/// Tells whether a person should know. What the library mends by itself is left out.
fn is_trouble(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::UnsupportedSASLMechanism
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::InconsistentGroupProtocol
    )
}

/// A feed offers nothing, so nothing of it may have arrived.
fn judge(code: RDKafkaErrorCode, subscription: &Subscription) -> Refusal {
    let Subscription { group, topics, .. } = subscription;
    let what = format!("group {group} of {}", topics.join(", "));
    match refusal(code, &what) {
        Refusal::Unknown(_) => {
            let told = match code {
                RDKafkaErrorCode::GroupAuthorizationFailed => Code::AuthRefused,
                _ => Code::SinkDown,
            };
            Refusal::Down(Cause::new(told, format_args!("{what}: {code}")))
        }
        refusal => refusal,
    }
}

/// Returns how long a member may be silent: no less than 6 s, as brokers usually want it.
fn session(subscription: &Subscription) -> Duration {
    subscription.lease.clamp(Duration::from_secs(6), Duration::from_secs(45))
}

fn config(cluster: &Cluster, subscription: &Subscription) -> ClientConfig {
    let mut config = cluster.config(subscription.timeout);
    let session = session(subscription).as_millis();
    let set = [
        ("group.id", subscription.group.clone()),
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        ("auto.offset.reset", "earliest".to_owned()),
        ("partition.assignment.strategy", "cooperative-sticky".to_owned()),
        ("isolation.level", "read_committed".to_owned()),
        ("session.timeout.ms", session.to_string()),
        ("heartbeat.interval.ms", (session / 4).to_string()),
        ("topic.metadata.refresh.interval.ms", "10000".to_owned()),
        ("queued.min.messages", "1000".to_owned()),
        ("queued.max.messages.kbytes", "16384".to_owned()),
        // Whatever is read beyond a pause is read again.
        ("fetch.message.max.bytes", "131072".to_owned()),
        ("fetch.wait.max.ms", "100".to_owned()),
        // The usual second after a full queue would be one after every pause.
        ("fetch.queue.backoff.ms", "5".to_owned()),
    ];
    for (name, value) in set {
        config.set(name, value);
    }
    config
}

/// What the library calls while the thread polls.
struct Context {
    shared: Arc<Shared>,
    timeout: Duration,
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(facility, line, "kafka");
    }

    // The poll returns it too.
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Context>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(going) = rebalance else { return };
        // What was lost is another member's already, and so is its mark.
        if !consumer.assignment_lost() {
            tell(&self.shared, consumer, Some(going), CommitMode::Sync);
        }
        let mut state = self.shared.state();
        places(going).for_each(|place| state.forget(&place));
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Context>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(come) = rebalance else { return };
        let mut wanted = TopicPartitionList::new();
        for (topic, partition) in places(come) {
            wanted.add_partition(&topic, partition);
        }
        // Without the marks, some of what is ended comes again.
        let told = consumer.committed_offsets(wanted, self.timeout).ok();
        let mut state = self.shared.state();
        for (topic, partition) in places(come) {
            let found = told.as_ref().and_then(|told| told.find_partition(&topic, partition));
            let mark = found.and_then(|found| match found.offset() {
                Offset::Offset(offset) => Some(Mark::read(offset, found.metadata())),
                _ => None,
            });
            state.parts.insert((topic, partition), Part::new(mark));
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, marks: &TopicPartitionList) {
        if result.is_err() {
            untold(&self.shared, marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Access;

    #[test]
    fn a_member_without_partitions_is_replaced_some_time_after_its_brokers_were_away() {
        let access = Access { url: "kafka://127.0.0.1:1".to_owned(), user: None };
        let cluster = Cluster::new(&access).unwrap();
        let subscription = Subscription::new("group", &["a"]);
        let shared = Arc::new(Shared::new(1));
        let context = Context { shared, timeout: subscription.timeout };
        let consumer: BaseConsumer<Context> =
            config(&cluster, &subscription).create_with_context(context).unwrap();
        let before = |time| Instant::now().checked_sub(time).unwrap();
        let is_astray = |away: &mut Option<Instant>| is_astray(&consumer, away, ASTRAY);
        assert!(!is_astray(&mut None), "they were never away");
        let mut away = Some(before(ASTRAY / 2));
        assert!(!is_astray(&mut away) && away.is_some());
        assert!(is_astray(&mut Some(before(ASTRAY))));
        let mut parts = TopicPartitionList::new();
        parts.add_partition("a", 0);
        consumer.assign(&parts).unwrap();
        let mut away = Some(before(ASTRAY));
        assert!(!is_astray(&mut away) && away.is_none(), "it is back");
    }
}
