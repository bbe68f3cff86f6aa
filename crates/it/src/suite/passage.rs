//! The few acts that the promises of brokers are told in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use broker::manner::{Manner, Subscription};
use event::{Answer, Cause, Delivery, Event, EventId, Feed, Refusal, Sequence, Sink};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::quay::{Quay, WRONG};

/// How long a fact may take. Brokers that rest between two looks need their time.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// How long a publish may take where something stands in its way.
pub(super) const TIMEOUT: Duration = Duration::from_secs(4);
/// How long a delivery stays with its holder where a promise waits for its end.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// How long one asks a feed before one looks at something else.
const ASK: Duration = Duration::from_millis(500);
/// How long one rests who was refused.
const REST: Duration = Duration::from_millis(50);

/// One topic and one group of it, for one test.
pub(super) struct Passage<'a> {
    pub(super) quay: &'a dyn Quay,
    pub(super) group: String,
    pub(super) topic: String,
}

impl<'a> Passage<'a> {
    pub(super) async fn new(quay: &'a dyn Quay) -> Passage<'a> {
        let group = name("group");
        let topic = quay.topic(&group).await.expect("the broker makes a topic");
        Passage { quay, group, topic }
    }

    /// Makes events of some keys, which take turns, numbered as an outbox does.
    pub(super) fn events(&self, keys: usize, each: usize) -> Vec<Event> {
        self.of_keys("key", keys, each)
    }

    /// Makes events of keys that begin with a word.
    pub(super) fn of_keys(&self, word: &str, keys: usize, each: usize) -> Vec<Event> {
        let one = |n: usize| {
            let payload = format!("{{\"n\": {n}}}");
            let event = Event::new(&*self.topic, "Counted", payload);
            let event = event.key(format!("{word}-{}", n % keys));
            Event { sequence: Sequence::of(n as i64 + 1), ..event }
        };
        (0..keys * each).map(one).collect()
    }

    /// Makes the event that tells that everything before it has come.
    pub(super) fn marker(&self) -> Event {
        Event::new(&*self.topic, "Marker", "{}").key("key-0")
    }

    pub(super) async fn sink(&self) -> Arc<dyn Sink> {
        self.quay.sink(manner()).await.expect("the options are right")
    }

    pub(super) async fn feed(&self) -> Arc<dyn Feed> {
        self.feed_with(|_| {}).await
    }

    pub(super) async fn feed_with(&self, change: impl FnOnce(&mut Subscription)) -> Arc<dyn Feed> {
        let mut subscription = Subscription::new(&*self.group, &[&self.topic]);
        change(&mut subscription);
        self.quay.feed(subscription).await.expect("the options are right")
    }

    /// Joins with leases that are soon over.
    pub(super) async fn brief_feed(&self) -> Arc<dyn Feed> {
        self.feed_with(|subscription| subscription.lease = LEASE).await
    }

    /// Joins and takes in whatever comes.
    pub(super) async fn reader(&self) -> Reader {
        Reader::start(self.feed().await)
    }

    /// Checks that no cause holds a secret.
    pub(super) fn clean(&self, cause: &Cause) {
        let secrets = self.quay.secrets();
        let secrets = secrets.iter().map(String::as_str).chain([WRONG]);
        for secret in secrets {
            assert!(!cause.detail.contains(secret), "a cause tells a secret: {cause}");
        }
        assert!(!cause.detail.trim().is_empty(), "{} says nothing more", cause.code);
    }

    /// Checks the causes of all that were refused.
    pub(super) fn clean_all(&self, answers: &[Answer]) {
        for answer in answers {
            if let Err(refusal) = answer
                && let Some(cause) = cause(refusal)
            {
                self.clean(cause);
            }
        }
    }
}

/// Makes a name that no other test has.
pub(super) fn name(word: &str) -> String {
    let id = EventId::new().to_string();
    format!("{word}-{}", &id[id.len() - 12..])
}

pub(super) fn manner() -> Manner {
    Manner { timeout: Duration::from_secs(30), ..Manner::new("it") }
}

/// Returns the manner of a sink that has something in its way.
pub(super) fn brief() -> Manner {
    Manner { timeout: TIMEOUT, ..Manner::new("it") }
}

pub(super) fn cause(refusal: &Refusal) -> Option<&Cause> {
    match refusal {
        Refusal::Down(cause)
        | Refusal::Retry(cause, _)
        | Refusal::Reject(cause)
        | Refusal::Unknown(cause) => Some(cause),
        Refusal::Held => None,
    }
}

/// Checks that every event has its receipt.
pub(super) fn all_taken(answers: &[Answer]) {
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// Brings events as a relay does: again and again, each key in its order, until the broker has
/// them or rejects them. It ends when it is dropped.
pub(super) struct Bringer(JoinSet<Vec<EventId>>);

impl Bringer {
    pub(super) fn start(sink: Arc<dyn Sink>, events: Vec<Event>) -> Bringer {
        let mut bringing = JoinSet::new();
        bringing.spawn(async move {
            let (mut left, mut rejected) = (events, Vec::new());
            while !left.is_empty() {
                let answers = sink.publish(&left).await;
                assert_eq!(answers.len(), left.len(), "each event has its answer");
                let (mut rest, mut kept) = (Duration::ZERO, Vec::new());
                for (event, answer) in left.into_iter().zip(answers) {
                    match answer {
                        Ok(_) => {}
                        Err(Refusal::Reject(_)) => rejected.push(event.id),
                        Err(refusal) => {
                            rest = rest.max(asked(&refusal));
                            kept.push(event);
                        }
                    }
                }
                left = kept;
                sleep(rest).await;
            }
            rejected
        });
        Bringer(bringing)
    }

    /// Waits until each has its answer; returns those that were rejected.
    pub(super) async fn done(mut self) -> Vec<EventId> {
        let done = timeout(PATIENCE, self.0.join_next()).await.expect("the broker takes events");
        done.expect("it was started").expect("the bringer goes on")
    }
}

fn asked(refusal: &Refusal) -> Duration {
    match refusal {
        Refusal::Retry(_, Some(after)) => (*after).max(REST),
        _ => REST,
    }
}

/// A consumer that takes in whatever comes, and remembers it.
pub(super) struct Reader {
    feed: Arc<dyn Feed>,
    seen: watch::Sender<Vec<Delivery>>,
    ended: watch::Sender<HashSet<EventId>>,
    _reading: JoinSet<()>,
}

impl Reader {
    pub(super) fn start(feed: Arc<dyn Feed>) -> Reader {
        let (seen, mut reading) = (watch::Sender::new(Vec::new()), JoinSet::new());
        let ended = watch::Sender::new(HashSet::new());
        let (asked, noted, ends) = (feed.clone(), seen.clone(), ended.clone());
        reading.spawn(async move {
            loop {
                match asked.next(ASK).await {
                    Ok(Some(delivery)) => {
                        let (handle, id) = (delivery.handle, id_of(&delivery));
                        noted.send_modify(|seen| seen.push(delivery));
                        // What could not be ended comes again, and is noted again.
                        if asked.ack(handle).await.is_ok() {
                            ends.send_modify(|ended| ended.extend(id));
                        }
                    }
                    Ok(None) => {}
                    Err(_) => sleep(REST).await,
                }
            }
        });
        Reader { feed, seen, ended, _reading: reading }
    }

    /// Returns every event that came so far.
    pub(super) fn events(&self) -> Vec<Event> {
        let seen = self.seen.borrow();
        seen.iter().filter_map(|delivery| delivery.event.clone().ok()).collect()
    }

    /// Returns how often each event came.
    pub(super) fn counts(&self) -> HashMap<EventId, usize> {
        let mut counts = HashMap::new();
        self.events().iter().for_each(|event| *counts.entry(event.id).or_insert(0) += 1);
        counts
    }

    /// Waits until all of these have come.
    pub(super) async fn until(&self, ids: impl IntoIterator<Item = EventId>) {
        let wanted: HashSet<EventId> = ids.into_iter().collect();
        let missing = |seen: &Vec<Delivery>| {
            let come: HashSet<EventId> =
                seen.iter().filter_map(|it| Some(it.event.as_ref().ok()?.id)).collect();
            wanted.difference(&come).count()
        };
        let mut news = self.seen.subscribe();
        let waiting = timeout(PATIENCE, news.wait_for(|seen| missing(seen) == 0));
        if waiting.await.is_err() {
            let missing = missing(&self.seen.borrow());
            panic!("{missing} of {} events have not come", wanted.len());
        }
    }

    /// Waits until these are ended, and the broker has said so.
    pub(super) async fn until_ended(&self, ids: &[EventId]) {
        let mut news = self.ended.subscribe();
        let all = |ended: &HashSet<EventId>| ids.iter().all(|id| ended.contains(id));
        let waiting = timeout(PATIENCE, news.wait_for(all));
        waiting.await.expect("they are ended").expect("the reader lives");
    }

    /// Waits until so many deliveries have come.
    pub(super) async fn until_some(&self, count: usize) {
        let mut news = self.seen.subscribe();
        let waiting = timeout(PATIENCE, news.wait_for(|seen| seen.len() >= count));
        waiting.await.expect("something comes").expect("the reader lives");
    }

    pub(super) async fn close(self) {
        self.feed.close().await;
    }
}

/// Waits for the next delivery, however long the broker rests.
pub(super) async fn next(feed: &Arc<dyn Feed>) -> Delivery {
    let asking = async {
        loop {
            match feed.next(ASK).await {
                Ok(Some(delivery)) => return delivery,
                Ok(None) => {}
                Err(_) => sleep(REST).await,
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("a delivery comes")
}

/// Waits for the next delivery that is this event; what else comes is left as it is.
pub(super) async fn next_of(feed: &Arc<dyn Feed>, id: EventId) -> Delivery {
    loop {
        let delivery = next(feed).await;
        if id_of(&delivery) == Some(id) {
            return delivery;
        }
    }
}

pub(super) fn id_of(delivery: &Delivery) -> Option<EventId> {
    delivery.event.as_ref().ok().map(|event| event.id)
}

pub(super) async fn ack(feed: &Arc<dyn Feed>, delivery: &Delivery) {
    feed.ack(delivery.handle).await.expect("the broker takes an ack");
}

pub(super) fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}

/// Checks that the first occurrences of each key came as they were published.
pub(super) fn in_order(published: &[Event], come: &[Event]) {
    let places: HashMap<EventId, usize> =
        published.iter().enumerate().map(|(place, event)| (event.id, place)).collect();
    let (mut seen, mut last) = (HashSet::new(), BTreeMap::new());
    for event in come.iter().filter(|event| seen.insert(event.id)) {
        let (Some(place), Some(key)) = (places.get(&event.id), &event.key) else { continue };
        let before = last.insert(key, place);
        assert!(before < Some(place), "{key}: {place} came after {before:?}");
    }
}
