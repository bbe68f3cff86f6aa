//! What works behind a feed: it joins, pulls what comes into the hand, and keeps leases alive.
//!
//! Whatever goes wrong ends the session; after a rest it joins again, by itself.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::connection::State;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::context::RequestError;
use async_nats::jetstream::{Context, Message};
use bytes::Bytes;
use event::{Cause, Code, Refusal};
use futures_util::StreamExt;
use futures_util::future::{join_all, try_join_all, try_join3};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::super::link::Link;
use super::super::wire;
use super::asked::{Asked, PULL};
use super::missed::{Seen, look, settle};
use super::unanswered;
use crate::hand::{self, Arrival, Ours};
use crate::manner::Subscription;

/// The place of a delivery: which of the streams, and where in it.
pub(super) type Place = (usize, u64);
pub(super) type Hand = hand::Hand<Place, Ticket>;
pub(super) type Held = hand::Held<Place, Ticket>;

/// How long the keys of what did not come may be read while nothing else is under way.
const READING: Duration = Duration::from_secs(3);
/// Unended deliveries of a group at the most, over all its feeds.
const UNENDED: usize = 1000;
/// How often to look whether a stream takes what none took.
const BEAT: Duration = Duration::from_secs(2);
/// How long to rest after something went wrong: at first, and at the most.
const REST: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// How JetStream is told of a delivery, and what it was.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) reply: async_nats::Subject,
    pub(super) subject: String,
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

/// Works until it is dropped.
pub(super) async fn run(link: Arc<Link>, hand: Arc<Hand>, subscription: Subscription) {
    let (mut rest, mut known) = (REST[0], Vec::new());
    loop {
        match join(&link, &subscription, &mut known).await {
            Err(refusal) => hand.trouble(refusal),
            Ok(Joined { context, wells, missing }) => {
                rest = REST[0];
                if !missing.is_empty() {
                    hand.trouble(untaken(&missing));
                }
                let pulls = wells.iter().map(|well| pull(&link, well, &context, &hand));
                let keeping = keep(&link, &hand, &subscription);
                let session = try_join3(try_join_all(pulls), keeping, wait(&link, &wells, &hand));
                tokio::select! {
                    ended = session => {
                        let Err(refusal) = ended;
                        hand.trouble(refusal);
                    }
                    () = appear(&context, &missing) => continue,
                }
            }
        }
        sleep(rest).await;
        rest = (rest * 2).min(REST[1]);
    }
}

/// Tells JetStream something of a delivery, and waits until it has heard it. It is said before that
/// moment or never.
pub(super) async fn tell(
    link: &Link,
    ticket: &Ticket,
    words: Bytes,
    until: Instant,
) -> Result<(), Refusal> {
    let telling = async {
        let context = link.context().await?;
        in_time(until)?;
        let heard = context.client().request(ticket.reply.clone(), words).await;
        heard.map(drop).map_err(|error| unanswered(&error, &link.host))
    };
    let late = |_| {
        let detail = format!("{}: no answer in time", link.host);
        Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))
    };
    timeout_at(until, telling).await.map_err(late)?
}

/// Checks that it is not too late to say something: a timeout looks at its time last.
pub(super) fn in_time(until: Instant) -> Result<(), Refusal> {
    if Instant::now() < until { Ok(()) } else { Err(hand::stale()) }
}

/// A stream, by the consumer of the group.
pub(super) struct Well {
    /// The number of the stream, which stays the same as long as the feed lives.
    pub(super) at: usize,
    pub(super) consumer: PullConsumer,
    pub(super) seen: Arc<Seen>,
}

/// The streams that were ever taken from, each at its number.
type Streams = Vec<(String, Arc<Seen>)>;

/// What there is to take from.
struct Joined {
    context: Context,
    wells: Vec<Well>,
    /// Subjects that no stream takes.
    missing: Vec<String>,
}

/// Finds the streams of the subjects, and the group's consumer in each. Subjects that no stream
/// takes keep it from no other, unless there is no other.
async fn join(
    link: &Link,
    subscription: &Subscription,
    known: &mut Streams,
) -> Result<Joined, Refusal> {
    let context = link.context().await?;
    let failed = |error: &dyn std::fmt::Display| {
        let detail = format!("{}: {error}", link.host);
        Refusal::Retry(Cause::new(Code::SinkBroken, detail), None)
    };
    let mut streams: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for subject in &subscription.topics {
        let names = taking(&context, subject).await.map_err(|error| failed(&error))?;
        if names.is_empty() {
            missing.push(subject.clone());
        }
        for name in names {
            streams.entry(name).or_default().push(subject.clone());
        }
    }
    if streams.is_empty() {
        return Err(untaken(&missing));
    }
    let mut wells = Vec::new();
    for (stream, mut subjects) in streams {
        let at = number(known, &stream);
        let seen = Arc::clone(&known[at].1);
        // A consumer that has gone past an event never turns back for it: where this stream is the
        // one that takes them later, they are wanted from the first on.
        subjects.extend_from_slice(&missing);
        let config = config(subscription, subjects);
        let made = context.create_consumer_on_stream(config, stream).await;
        wells.push(Well { at, consumer: made.map_err(|error| failed(&error))?, seen });
    }
    Ok(Joined { context, wells, missing })
}

/// Returns when a stream takes one of the subjects that none took; never if there are none.
async fn appear(context: &Context, missing: &[String]) {
    loop {
        sleep(BEAT).await;
        for subject in missing {
            // A connection that broke is seen by those that pull.
            if taking(context, subject).await.is_ok_and(|names| !names.is_empty()) {
                return;
            }
        }
    }
}

/// Asks which streams take a subject.
async fn taking(context: &Context, subject: &str) -> Result<Vec<String>, RequestError> {
    let told: Value = context.request("STREAM.NAMES", &json!({ "subject": subject })).await?;
    let names = told["streams"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(names.map(str::to_owned).collect())
}

fn untaken(subjects: &[String]) -> Refusal {
    let subjects = subjects.join(", ");
    let detail = format!("no stream takes the subject {subjects}: make one that does");
    Refusal::Retry(Cause::new(Code::TopicMissing, detail), None)
}

/// Returns the number of a stream; one that was never seen gets the next.
fn number(known: &mut Streams, stream: &str) -> usize {
    if let Some(at) = known.iter().position(|(it, _)| it == stream) {
        return at;
    }
    known.push((stream.to_owned(), Arc::default()));
    known.len() - 1
}

fn config(subscription: &Subscription, mut subjects: Vec<String>) -> Config {
    let one = if subjects.len() == 1 { subjects.remove(0) } else { String::new() };
    let unended = if subscription.most == 1 { 1 } else { (subscription.most * 8).max(UNENDED) };
    Config {
        durable_name: Some(subscription.group.clone()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: subscription.lease + slack(subscription.lease),
        filter_subject: one,
        filter_subjects: subjects,
        max_deliver: -1,
        max_ack_pending: i64::try_from(unended).unwrap_or(i64::MAX),
        ..Config::default()
    }
}

/// How much longer the server counts a lease: by so much may the way there and back be slow.
pub(super) fn slack(lease: Duration) -> Duration {
    (lease / 4).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

/// Says what a consumer that fails means.
pub(super) fn failed(consumer: &PullConsumer, error: &dyn std::fmt::Display) -> Refusal {
    let detail = format!("the pull of {} ended: {error}", consumer.cached_info().stream_name);
    Refusal::Retry(Cause::new(Code::SinkBroken, detail), None)
}

async fn pull(
    link: &Link,
    well: &Well,
    context: &Context,
    hand: &Hand,
) -> Result<Infallible, Refusal> {
    let Well { at, consumer, seen } = well;
    let failed = |error: &dyn std::fmt::Display| failed(consumer, error);
    seen.begin();
    look(link, well, context, hand, READING).await?;
    loop {
        let room = hand.room().await.of;
        if seen.calms() {
            look(link, well, context, hand, READING).await?;
        }
        seen.asked(PULL);
        let mut asked = Asked::now();
        let batch = consumer.batch().max_messages(room).expires(PULL);
        let mut batch = batch.messages().await.map_err(|error| failed(&error))?;
        while let Some(message) = batch.next().await {
            let message = message.map_err(|error| failed(&error))?;
            let info = message.info().map_err(|it| failed(&it))?;
            let (delivery, event) = (info.consumer_sequence, info.stream_sequence);
            if seen.came(delivery, event) {
                let reading = slack(hand.lease()) / 2;
                asked.aside(look(link, well, context, hand, reading)).await?;
                seen.takes(delivery, event);
            }
            let lease = asked.left(hand.lease());
            let (place, arrival) = read(*at, message, lease).map_err(|it| failed(&it))?;
            hand.arrive(place, arrival);
        }
        if context.client().connection_state() != State::Connected {
            let detail = "the connection broke";
            return Err(Refusal::Down(Cause::new(Code::SinkDown, detail)));
        }
        if asked.is_late() {
            // What comes for it now comes to nobody.
            return Err(failed(&"the server has not ended it in time"));
        }
    }
}

/// Looks whether what was missed is ended, while somebody asks for what waits for it.
async fn wait(link: &Link, wells: &[Well], hand: &Hand) -> Result<Infallible, Refusal> {
    let step = (hand.lease() / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        sleep(step).await;
        if hand.misses() && hand.is_asked() {
            join_all(wells.iter().map(|well| settle(link, well, hand))).await;
        }
    }
}

fn read(
    at: usize,
    message: Message,
    lease: Duration,
) -> Result<(Place, Arrival<Ticket>), async_nats::Error> {
    let until = Instant::now() + lease;
    let info = message.info()?;
    let (sequence, attempt) = (info.stream_sequence, info.delivered);
    let origin = format!("{}:{sequence}", info.stream);
    let async_nats::Message { subject, reply, payload, headers, .. } = message.message;
    let event = wire::open(headers.as_ref(), payload.clone(), &subject);
    let reply = reply.ok_or("a delivery of JetStream has a reply")?;
    let ticket = Ticket { reply, subject: subject.to_string(), headers, payload };
    let attempt = u32::try_from(attempt).unwrap_or(u32::MAX).max(1);
    Ok(((at, sequence), Arrival { event, origin, attempt, ticket, until }))
}

/// Renews the leases of what waits here and of what shall be kept.
async fn keep(
    link: &Link,
    hand: &Hand,
    subscription: &Subscription,
) -> Result<Infallible, Refusal> {
    let step = (hand.lease() / 8).clamp(Duration::from_millis(50), Duration::from_secs(5));
    loop {
        sleep(step).await;
        let asked = Instant::now();
        let renew = |Ours { place, ticket, until }: Ours<Place, Ticket>| async move {
            let until = until.min(asked + subscription.timeout);
            if tell(link, &ticket, "+WPI".into(), until).await.is_ok() {
                hand.renewed(&place, asked);
            }
        };
        join_all(hand.due().into_iter().map(renew)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_its_number_when_another_comes() {
        let mut known = Vec::new();
        assert_eq!(["b", "c", "a", "b"].map(|name| number(&mut known, name)), [0, 1, 2, 0]);
    }

    #[test]
    fn a_group_whose_feeds_have_one_in_hand_has_one_in_hand() {
        let subjects = || vec!["order.paid".to_owned()];
        let mut subscription = Subscription::new("stock", &["order.paid"]);
        let many = config(&subscription, subjects());
        assert_eq!((many.max_ack_pending, many.max_deliver), (1000, -1));
        assert_eq!(many.filter_subject, "order.paid");
        assert!(many.ack_wait > subscription.lease, "the server counts longer");
        subscription.most = 1;
        assert_eq!(config(&subscription, subjects()).max_ack_pending, 1);
        let two = vec!["a".to_owned(), "b".to_owned()];
        let both = config(&subscription, two.clone());
        assert_eq!((both.filter_subject.as_str(), both.filter_subjects), ("", two));
    }
}
