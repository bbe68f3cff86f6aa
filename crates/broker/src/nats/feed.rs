//! The feed of NATS JetStream: one durable pull consumer per group and stream, shared by its feeds.
//!
//! Of a key, this feed hands out no later event before the earlier one is ended. Feeds of one group
//! do not know of each other: with several, a key's events may be worked on side by side, unless
//! each has only one in hand; then the group as a whole has one.
//!
//! What JetStream has handed out and never came here goes before what is newer of its key, for as
//! long as its lease there lasts (`missed.rs`).
//!
//! JetStream takes an acknowledgment from anyone, also from a holder whose time is over. So a lease
//! ends here a little before it ends at the server, and nothing is told of it after that, also not
//! by who waited for a connection meanwhile.

mod asked;
mod missed;
mod pull;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, RequestErrorKind, header};
use async_trait::async_trait;
use bytes::Bytes;
use event::{Cause, Code, Delivery, Feed, Handle, Nack, Refusal};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::pull::{Hand, Held};
use super::link::Link;
use super::{Access, dead_subject, refusal};
use crate::manner::Subscription;
use crate::percent;

/// Takes events from streams, for one group.
pub struct NatsFeed {
    link: Arc<Link>,
    hand: Arc<Hand>,
    subscription: Subscription,
    tasks: Mutex<JoinSet<()>>,
}

impl NatsFeed {
    /// Checks what is wanted. Nothing is connected yet.
    pub fn new(access: &Access, subscription: Subscription) -> Result<NatsFeed, Cause> {
        let invalid = |why: &dyn fmt::Display| Cause::new(Code::ConfigInvalid, why);
        let odd = |it: char| it.is_whitespace() || it.is_control() || ".*>/\\".contains(it);
        let group = &subscription.group;
        if group.is_empty() || group.contains(odd) {
            let why =
                "a group is a consumer of NATS, whose name holds none of . * > / \\ or blanks";
            return Err(invalid(&format_args!("group {group:?}: {why}")));
        }
        if subscription.topics.is_empty() {
            return Err(invalid(&"there are no subjects to take from"));
        }
        let blank = |it: &&String| it.is_empty() || it.contains(char::is_whitespace);
        if let Some(subject) = subscription.topics.iter().find(blank) {
            return Err(invalid(&format_args!("{subject:?} is no subject of NATS")));
        }
        if subscription.lease.is_zero() || subscription.timeout.is_zero() {
            return Err(invalid(&"a lease and a timeout are longer than 0"));
        }
        let link = Arc::new(Link::new(access, subscription.timeout)?);
        let hand = Arc::new(Hand::new(subscription.most, subscription.lease));
        Ok(NatsFeed { link, hand, subscription, tasks: Mutex::default() })
    }

    fn start(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            let (link, hand) = (Arc::clone(&self.link), Arc::clone(&self.hand));
            tasks.spawn(pull::run(link, hand, self.subscription.clone()));
        }
    }

    /// Tells JetStream something of a delivery while it is ours, and waits until it has heard it.
    async fn tell(&self, held: &Held, words: impl Into<Bytes>) -> Result<(), Refusal> {
        let until = self.patience(held.until);
        pull::tell(&self.link, &held.ticket, words.into(), until).await
    }

    /// Returns until when a call may take that is of use until then at the most.
    fn patience(&self, at_most: Instant) -> Instant {
        at_most.min(Instant::now() + self.subscription.timeout)
    }

    /// Puts a copy where the dead of its subject are kept.
    async fn bury(&self, held: &Held, cause: &Cause) -> Result<(), Refusal> {
        let Held { ticket, origin, .. } = held;
        let subject = dead_subject(&ticket.subject);
        let mut headers = ticket.headers.clone().unwrap_or_default();
        // Its own id would make it a duplicate of itself, where one stream takes both.
        let group = &self.subscription.group;
        let id = format!("{origin}:{group}:dead");
        headers.insert(header::NATS_MESSAGE_ID, id);
        for own in ["Nats-Expected-Stream", "Nats-TTL"] {
            remove(&mut headers, own);
        }
        for (name, value) in [
            ("Postbox-Dead-Code", cause.code.to_string()),
            ("Postbox-Dead-Detail", percent::encode(&cause.detail).into_owned()),
            ("Postbox-Dead-Group", group.clone()),
            ("Postbox-Dead-Origin", origin.clone()),
        ] {
            headers.insert(name, value);
        }
        let until = self.patience(held.until);
        let host = &self.link.host;
        let message = PublishMessage::build().headers(headers).payload(ticket.payload.clone());
        let publishing = async {
            let context = self.link.context().await?;
            pull::in_time(until)?;
            let written = context.send_publish(subject.clone(), message).await;
            let acknowledged =
                written.map_err(|error| refusal::not_written(&error, &subject, host))?;
            let receipt = acknowledged.await;
            receipt.map_err(|error| refusal::no_receipt(&error, &subject, host))
        };
        timeout_at(until, publishing).await.map_err(|_| refusal::late(host))?.map(drop)
    }
}

impl fmt::Debug for NatsFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsFeed").field("host", &self.link.host).finish_non_exhaustive()
    }
}

#[async_trait]
impl Feed for NatsFeed {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        self.start();
        let next = self.hand.next(Instant::now() + at_most).await?;
        if let Some(delivery) = &next
            && self.hand.age(delivery.handle) > self.subscription.lease / 8
        {
            // It has waited: its holder shall have a whole lease. If not, what is left.
            let _ = self.extend(delivery.handle, self.subscription.lease).await;
        }
        Ok(next)
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        let held = self.hand.ending(handle)?;
        self.tell(&held, "+ACK").await?;
        self.hand.end(handle);
        Ok(())
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        match nack {
            Nack::Again(after) => {
                let held = self.hand.ending(handle)?;
                let words = format!("-NAK {{\"delay\": {}}}", after.as_nanos().max(1));
                self.tell(&held, words).await?;
                self.hand.again(handle, after);
            }
            Nack::Dead(cause) => {
                let held = self.hand.find(handle)?;
                self.bury(&held, &cause).await?;
                let held = self.hand.ending(handle)?;
                self.tell(&held, format!("+TERM {}", cause.code)).await?;
                self.hand.end(handle);
            }
        }
        Ok(())
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        let held = self.hand.find(handle)?;
        let asked = Instant::now();
        self.tell(&held, "+WPI").await?;
        self.hand.renewed(&held.place, asked);
        self.hand.keep(handle, by);
        Ok(())
    }

    /// Gives everything back at once, so that others need not wait for the leases to run out.
    async fn close(&self) {
        let mut tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *tasks)
        };
        tasks.shutdown().await;
        let left = self.hand.clear();
        let giving = left.iter().map(|ours| {
            pull::tell(&self.link, &ours.ticket, "-NAK".into(), self.patience(ours.until))
        });
        // What could not be given back comes again when its lease has run out.
        futures_util::future::join_all(giving).await;
        self.link.close().await;
    }
}

fn remove(headers: &mut HeaderMap, name: &str) {
    let kept: Vec<_> = headers
        .iter()
        .filter(|(known, _)| !AsRef::<str>::as_ref(*known).eq_ignore_ascii_case(name))
        .flat_map(|(known, values)| values.iter().map(|value| (known.clone(), value.clone())))
        .collect();
    *headers = HeaderMap::new();
    for (name, value) in kept {
        headers.append(name, value);
    }
}

/// Says what a question that got no answer means.
fn unanswered(error: &async_nats::RequestError, host: &str) -> Refusal {
    match error.kind() {
        RequestErrorKind::NoResponders => {
            let detail = format!("{host}: the consumer of the group is gone; it is made again");
            Refusal::Retry(Cause::new(Code::TopicMissing, detail), None)
        }
        RequestErrorKind::TimedOut => refusal::late(host),
        _ => Refusal::Unknown(Cause::new(Code::SinkBroken, format_args!("{host}: {error}"))),
    }
}
