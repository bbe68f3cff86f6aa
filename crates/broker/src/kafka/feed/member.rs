//! The thread of a feed: it polls, tells the group what is ended, and goes along with rebalances.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use event::{Cause, Code, Refusal};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Message, OwnedMessage};
use rdkafka::statistics::{Broker, Statistics};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::trouble::{Said, judge};
use super::{Place, Shared};
use crate::kafka::access::Cluster;
use crate::kafka::live::setting;
use crate::kafka::marks::Mark;
use crate::kafka::part::Part;
use crate::kafka::watch::told;
use crate::manner::Subscription;

/// How long a poll waits for something; acks are told to the group at least that often.
const POLL: Duration = Duration::from_millis(50);
/// How long acks are gathered before the group is told.
const GATHER: Duration = Duration::from_millis(20);
/// How long to rest before the group is joined anew.
const REST: Duration = Duration::from_secs(1);
/// What the library says before the name of a topic that is not there, or not for us.
const MISSING: &str = "Subscribed topic not available: ";
/// How often the library says which brokers it knows, in milliseconds.
const KNOWN: &str = "5000";
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
    let context = Context::new(Arc::clone(shared), subscription.timeout);
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
    let (mut told, mut paused, mut said) = (Instant::now(), Vec::new(), Said::default());
    while !closed(shared) && !consumer.context().is_astray() {
        let mut full = false;
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(record)) => full = arrive(shared, &record),
            Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                trouble(shared, judge(code, &consumer.context().last(), subscription));
                break;
            }
            Some(Err(error)) => {
                let context = consumer.context();
                let (code, wants) = (error.rdkafka_error_code(), context.at(subscription));
                if let Some(refusal) =
                    code.and_then(|code| said.hear(code, &context.last(), &wants))
                {
                    trouble(shared, refusal);
                }
            }
        }
        if full || told.elapsed() >= GATHER {
            tell(shared, &consumer, None, CommitMode::Async);
            balance(shared, &consumer, &mut paused);
            told = Instant::now();
        }
    }
    if consumer.context().is_astray() {
        shared.state().forget_all();
        // It can tell nobody that it leaves, and may wait for an answer for ever.
        thread::spawn(move || drop(consumer));
        return;
    }
    tell(shared, &consumer, None, CommitMode::Sync);
    // Dropping it leaves the group.
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
        ("statistics.interval.ms", KNOWN.to_owned()),
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
    astray: AtomicBool,
    /// What the library said with its last error, and its last word on connections.
    reason: Mutex<String>,
    last: Mutex<String>,
}

impl Context {
    fn new(shared: Arc<Shared>, timeout: Duration) -> Context {
        let (reason, last) = (Mutex::default(), Mutex::default());
        Context { shared, timeout, astray: AtomicBool::new(false), reason, last }
    }

    /// Returns the part of what is wanted that the last error is about: one topic, or all.
    fn at(&self, wants: &Subscription) -> Subscription {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |topic: &&String| reason.starts_with(&format!("{MISSING}{topic}: "));
        let one = wants.topics.iter().find(is).map(|topic| vec![topic.clone()]);
        Subscription { topics: one.unwrap_or_else(|| wants.topics.clone()), ..wants.clone() }
    }

    fn last(&self) -> String {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells whether the library has forgotten every broker and asks nobody any more. A cluster
    /// whose only broker was out of touch with its controller for a moment says of itself that it
    /// has none, and the library then forgets the last one, and where it began.
    fn is_astray(&self) -> bool {
        self.astray.load(Ordering::Relaxed)
    }
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(facility, line = told(line), "kafka");
        if facility == "FAIL" {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = told(line);
        }
    }

    fn stats(&self, told: Statistics) {
        let known = |broker: &Broker| ["configured", "learned"].contains(&&*broker.source);
        if !told.brokers.values().any(known) && !self.astray.swap(true, Ordering::Relaxed) {
            tracing::info!("the group is joined anew: the client has forgotten all brokers");
        }
    }

    // The poll returns it too, but not the reason.
    fn error(&self, _: KafkaError, reason: &str) {
        reason.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Context>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(going) = rebalance else { return };
        // Whatever is in hand by now is another member's.
        if self.is_astray() {
            return;
        }
        // What was lost is another member's already, and so is its mark.
        if !consumer.assignment_lost() {
            tell(&self.shared, consumer, Some(going), CommitMode::Sync);
        }
        let mut state = self.shared.state();
        places(going).for_each(|place| state.forget(&place));
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Context>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(come) = rebalance else { return };
        if self.is_astray() {
            return;
        }
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
        if result.is_err() && !self.is_astray() {
            untold(&self.shared, marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode;

    use super::*;

    fn knows(sources: &[&str]) -> Statistics {
        let broker = |source: &&str| {
            let broker = Broker { source: (*source).to_owned(), ..Broker::default() };
            ((*source).to_owned(), broker)
        };
        Statistics { brokers: sources.iter().map(broker).collect(), ..Statistics::default() }
    }

    #[test]
    fn a_client_that_knows_no_broker_any_more_is_astray_and_no_other() {
        let context = Context::new(Arc::new(Shared::new(1)), Duration::ZERO);
        for sources in [&["logical", "configured"][..], &["logical", "learned", "internal"]] {
            context.stats(knows(sources));
            assert!(!context.is_astray(), "{sources:?}");
        }
        context.stats(knows(&["logical", "internal"]));
        assert!(context.is_astray());
    }

    #[test]
    fn an_error_is_about_the_topic_that_it_names_or_about_all() {
        let context = Context::new(Arc::new(Shared::new(1)), Duration::ZERO);
        let wants = Subscription::new("g", &["order", "order.paid", "bill"]);
        let about = |reason: &str| {
            context.error(KafkaError::Canceled, reason);
            context.at(&wants).topics
        };
        let reason = "Subscribed topic not available: order.paid: Broker: Unknown topic";
        assert_eq!(about(reason), ["order.paid"]);
        assert_eq!(about("3/3 brokers are down"), wants.topics);
    }

    #[test]
    fn what_is_wrong_with_connections_is_told_in_the_last_words_of_the_library() {
        let context = Context::new(Arc::new(Shared::new(1)), Duration::ZERO);
        let line =
            "a:1/bootstrap: SSL handshake failed: expired (after 7ms in state SSL_HANDSHAKE)";
        context.log(RDKafkaLogLevel::Error, "FAIL", line);
        context.log(RDKafkaLogLevel::Info, "OTHER", "no matter");
        let subscription = Subscription::new("g", &["orders"]);
        for (code, is_told) in [
            (RDKafkaErrorCode::AllBrokersDown, true),
            (RDKafkaErrorCode::Authentication, true),
            (RDKafkaErrorCode::GroupAuthorizationFailed, false),
        ] {
            let Refusal::Down(cause) = judge(code, &context.last(), &subscription) else {
                panic!("{code:?}")
            };
            let told = cause.detail.contains("group g of orders: a:1/bootstrap: SSL handshake");
            assert!(told == is_told && !cause.detail.contains("(after"), "{cause}");
        }
    }

    #[test]
    fn what_a_client_that_is_astray_could_not_tell_is_no_matter_of_its_successor() {
        for astray in [false, true] {
            let shared = Arc::new(Shared::new(1));
            let context = Context::new(Arc::clone(&shared), Duration::ZERO);
            if astray {
                context.stats(knows(&[]));
            }
            let place = ("orders".to_owned(), 0);
            let fresh = Part::new(Some(Mark { offset: 7, ..Mark::default() }));
            shared.state().parts.insert(place.clone(), fresh);
            let mut marks = TopicPartitionList::new();
            marks.add_partition_offset("orders", 0, Offset::Offset(5)).unwrap();
            context.commit_callback(Err(KafkaError::Canceled), &marks);
            let told = shared.state().parts.get_mut(&place).unwrap().mark();
            assert_eq!(told.is_none(), astray, "{told:?}");
        }
    }
}
