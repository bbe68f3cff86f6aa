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
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, PullConsumer};
use async_nats::jetstream::{Context, Message};
use bytes::Bytes;
use event::{Cause, Code, Refusal};
use futures_util::StreamExt;
use futures_util::future::{join_all, try_join, try_join_all};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::super::link::Link;
use super::super::wire;
use super::unanswered;
use crate::hand::{self, Arrival};
use crate::manner::Subscription;

/// The place of a delivery: which of the streams, and where in it.
pub(super) type Place = (usize, u64);
pub(super) type Hand = hand::Hand<Place, Ticket>;

/// How long one pull waits at the server. What comes to a pull that nobody waits for any more stays
/// here for a lease.
const PULL: Duration = Duration::from_secs(2);
/// Unended deliveries of a group at the most, over all its feeds.
const UNENDED: usize = 1000;
/// How long to rest after something went wrong: at first, and at the most.
const REST: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// How JetStream is told of a delivery, and what it was.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    reply: async_nats::Subject,
    pub(super) subject: String,
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

/// Works until it is dropped.
pub(super) async fn run(link: Arc<Link>, hand: Arc<Hand>, subscription: Subscription) {
    let mut rest = REST[0];
    loop {
        match join(&link, &subscription).await {
            Err(refusal) => hand.trouble(refusal),
            Ok((context, consumers)) => {
                rest = REST[0];
                let places = consumers.iter().enumerate();
                let pulls = places.map(|(at, consumer)| pull(at, consumer, &context, &hand));
                let session = try_join(try_join_all(pulls), keep(&link, &hand, &subscription));
                let Err(refusal) = session.await;
                hand.trouble(refusal);
            }
        }
        sleep(rest).await;
        rest = (rest * 2).min(REST[1]);
    }
}

/// Tells JetStream something of a delivery, and waits until it has heard it.
pub(super) async fn tell(
    link: &Link,
    ticket: &Ticket,
    words: Bytes,
    until: Instant,
) -> Result<(), Refusal> {
    let telling = async {
        let context = link.context().await?;
        let heard = context.client().request(ticket.reply.clone(), words).await;
        heard.map(drop).map_err(|error| unanswered(&error, &link.host))
    };
    let late = |_| {
        let detail = format!("{}: no answer in time", link.host);
        Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))
    };
    timeout_at(until, telling).await.map_err(late)?
}

/// Finds the streams of the subjects, and the group's consumer in each.
async fn join(
    link: &Link,
    subscription: &Subscription,
) -> Result<(Context, Vec<PullConsumer>), Refusal> {
    let context = link.context().await?;
    let failed = |error: &dyn std::fmt::Display| {
        let detail = format!("{}: {error}", link.host);
        Refusal::Retry(Cause::new(Code::SinkBroken, detail), None)
    };
    let mut streams: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for subject in &subscription.topics {
        let told: Value = context
            .request("STREAM.NAMES", &json!({ "subject": subject }))
            .await
            .map_err(|error| failed(&error))?;
        let names = told["streams"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let before: usize = streams.values().map(Vec::len).sum();
        for name in names {
            streams.entry(name.to_owned()).or_default().push(subject.clone());
        }
        if streams.values().map(Vec::len).sum::<usize>() == before {
            let detail = format!("no stream takes the subject {subject}: make one that does");
            return Err(Refusal::Retry(Cause::new(Code::TopicMissing, detail), None));
        }
    }
    let mut consumers = Vec::new();
    for (stream, subjects) in streams {
        let config = config(subscription, subjects);
        let made = context.create_consumer_on_stream(config, stream).await;
        consumers.push(made.map_err(|error| failed(&error))?);
    }
    Ok((context, consumers))
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
fn slack(lease: Duration) -> Duration {
    (lease / 4).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

async fn pull(
    at: usize,
    consumer: &Consumer<Config>,
    context: &Context,
    hand: &Hand,
) -> Result<Infallible, Refusal> {
    let failed = |error: &dyn std::fmt::Display| {
        let detail = format!("the pull of {} ended: {error}", consumer.cached_info().stream_name);
        Refusal::Retry(Cause::new(Code::SinkBroken, detail), None)
    };
    loop {
        let room = hand.room().await;
        let batch = consumer.batch().max_messages(room).expires(PULL);
        let mut batch = batch.messages().await.map_err(|error| failed(&error))?;
        while let Some(message) = batch.next().await {
            let message = message.map_err(|error| failed(&error))?;
            let (place, arrival) = read(at, message, hand.lease()).map_err(|it| failed(&it))?;
            hand.arrive(place, arrival);
        }
        if context.client().connection_state() != State::Connected {
            let detail = "the connection broke";
            return Err(Refusal::Down(Cause::new(Code::SinkDown, detail)));
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
        let until = asked + subscription.timeout.min(hand.lease());
        let renew = |(place, ticket): (Place, Ticket)| async move {
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
