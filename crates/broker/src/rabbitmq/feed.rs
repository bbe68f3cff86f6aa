//! The feed `rabbitmq`: the queues of one group, kept in order per key.
//!
//! A queue hands its events, in its order, to one consumer at a time (`single active consumer`);
//! the others stand by. The consumer works on many keys side by side, and on one event of each
//! (`book.rs`). What is not ended stays with the broker, and comes again when the connection ends.

mod join;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Delivery, Feed, Handle, Nack, Refusal, Secret};
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use lapin::{Acker, message};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use self::join::{Joined, Plan};
use super::book::{Arrival, BEHIND, Book};
use super::joint::Joint;
use super::line::Target;
use super::refusal;
use super::topology::{Exchange, Kind, Queue};
use super::wire;
use crate::manner::Subscription;

/// How long one that is to come again is held at the most: the broker ends the connection of
/// whoever keeps something for half an hour.
const HELD: Duration = Duration::from_secs(600);

/// Where and how events are taken.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://…`.
    pub url: Secret,
    /// The exchange that the group's queues are bound to; with the empty one, topics are queues.
    pub exchange: String,
    /// One queue for all topics, so that order per key holds across them. Otherwise each topic has
    /// a queue of its own, `GROUP.TOPIC`.
    pub queue: Option<String>,
    /// Whether exchange, queues and bindings are declared; otherwise the queues must be there.
    pub declare: bool,
    /// Whether queues that are declared have one consumer at a time.
    pub ordered: bool,
    /// How often the broker hands out what was not ended before it is dead.
    pub delivery_limit: u32,
    /// What all feeds are told. A lease is none of RabbitMQ's business.
    pub subscription: Subscription,
}

impl FeedOptions {
    /// Returns the usual options: everything is declared, ordered, dead after 100 times. Each end
    /// of a connection counts for whatever it had brought, so an outage must not use them up.
    pub fn new(
        url: Secret,
        exchange: impl Into<String>,
        subscription: Subscription,
    ) -> FeedOptions {
        FeedOptions {
            url,
            exchange: exchange.into(),
            queue: None,
            declare: true,
            ordered: true,
            delivery_limit: 100,
            subscription,
        }
    }
}

/// Takes events.
pub struct RabbitMqFeed {
    plan: Arc<Plan>,
    timeout: Duration,
    joint: Joint<Joined>,
    book: Mutex<Book<Acker>>,
    /// Rings when something may be handed out that did not just arrive.
    bell: Notify,
    closed: AtomicBool,
}

impl RabbitMqFeed {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: FeedOptions) -> Result<RabbitMqFeed, Cause> {
        let FeedOptions { url, exchange, queue, declare, ordered, delivery_limit, subscription } =
            options;
        let Subscription { group, topics, most, timeout, .. } = subscription;
        let queues = Queue::of(&group, &topics, &exchange, queue.as_deref())?;
        let plan = Arc::new(Plan {
            target: Target::new(&url, timeout, &group)?,
            exchange: Exchange::new(exchange, declare)?,
            queues,
            declare,
            kind: Kind { ordered, delivery_limit },
            prefetch: prefetch(most),
            failures: AtomicU32::new(0),
            lines: AtomicU64::new(0),
        });
        let joining = Arc::clone(&plan);
        let make = move || -> BoxFuture<'static, _> { Box::pin(Arc::clone(&joining).join()) };
        let joint = Joint::new(&plan.target.host, Box::new(make), Joined::lives);
        let book = Mutex::new(Book::new(most));
        let (bell, closed) = (Notify::new(), AtomicBool::new(false));
        Ok(RabbitMqFeed { plan, timeout, joint, book, bell, closed })
    }

    /// Declares what the group needs, so that events wait for it from now on, and takes none.
    pub async fn declare(&self) -> Result<(), Refusal> {
        let declaring = async {
            let line = self.plan.target.connect().await?;
            self.plan.prepare(&line).await?;
            line.close().await;
            Ok(())
        };
        let late = || refusal::down(&self.plan.target.host, "it does not answer in time");
        timeout(self.timeout, declaring).await.map_err(|_| late())?
    }

    fn book(&self) -> MutexGuard<'_, Book<Acker>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something arrives, and writes it into the book.
    async fn arrive(&self) -> Result<(), Refusal> {
        let joined = self.joint.get(Instant::now() + self.timeout).await?;
        let mut arrivals = joined.arrivals.lock().await;
        let why = match arrivals.next().await {
            Some((queue, Ok(Some(brought)))) => {
                self.book().arrive(joined.id, arrival(&queue, brought));
                return Ok(());
            }
            Some((_, Err(error))) => error.to_string(),
            Some((queue, Ok(None))) => format!("the broker has cancelled the consumer of {queue}"),
            None => "the connection has ended".to_owned(),
        };
        joined.lost.store(true, Ordering::SeqCst);
        self.book().clear();
        Err(refusal::down(&self.plan.target.host, why))
    }

    /// Ends one that is out, by what `end` says to the broker.
    async fn end<F>(&self, handle: Handle, end: impl FnOnce(Acker) -> F) -> Result<(), Refusal>
    where
        F: Future<Output = lapin::Result<bool>>,
    {
        let acker = self.book().acker(handle).ok_or_else(|| self.stale())?;
        let said = timeout(self.timeout, end(acker)).await;
        match said {
            Ok(Ok(true)) => {
                self.book().end(handle);
                self.bell.notify_waiters();
                Ok(())
            }
            Ok(Ok(false)) => Err(self.stale()),
            // Nobody knows whether the broker has heard it, and its key would wait for ever.
            Ok(Err(_)) => Err(self.give_up(self.stale()).await),
            Err(_) => Err(self.give_up(refusal::late(&self.plan.target.host, None)).await),
        }
    }

    /// Gives the connection up: whatever it brought and was not ended comes again by another.
    async fn give_up(&self, why: Refusal) -> Refusal {
        self.joint.part().await;
        self.book().clear();
        self.bell.notify_waiters();
        why
    }

    /// Tells that the broker has one back already: an end came too late, and ended nothing.
    fn stale(&self) -> Refusal {
        let host = &self.plan.target.host;
        let detail = format_args!("{host}: the connection that it came by is gone; it comes again");
        Refusal::Unknown(Cause::new(Code::SinkBroken, detail))
    }
}

/// Returns how many a queue brings before any of them is ended. Those behind a key that is to come
/// later are not ended either, and must not keep other keys away.
fn prefetch(most: usize) -> u16 {
    u16::try_from(most.max(1).saturating_mul(BEHIND)).unwrap_or(u16::MAX)
}

fn arrival(queue: &str, brought: message::Delivery) -> Arrival<Acker> {
    let message::Delivery {
        delivery_tag, routing_key, redelivered, properties, data, acker, ..
    } = brought;
    // A queue that does not count tells at least that it is not the first time.
    let before = wire::handed_out(&properties).unwrap_or(u32::from(redelivered));
    Arrival {
        event: wire::open(&properties, data, routing_key.as_str()),
        origin: format!("{queue} #{delivery_tag}"),
        attempt: before.saturating_add(1),
        acker,
    }
}

#[async_trait]
impl Feed for RabbitMqFeed {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        let until = Instant::now() + at_most;
        loop {
            if self.closed.load(Ordering::SeqCst) {
                return Err(refusal::down(&self.plan.target.host, "the feed is closed"));
            }
            let rung = self.bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let due = {
                let mut book = self.book();
                if let Some(delivery) = book.take(Instant::now(), Acker::usable) {
                    return Ok(Some(delivery));
                }
                book.due()
            };
            tokio::select! {
                arrived = self.arrive() => arrived?,
                () = rung => {}
                () = sleep_until(due.map_or(until, |due| due.min(until))) => {
                    if Instant::now() >= until {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        self.end(handle, async |acker| acker.ack(BasicAckOptions::default()).await).await
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        match nack {
            Nack::Again(after) => {
                let usable = self.book().acker(handle).is_some_and(|acker| acker.usable());
                let at = Instant::now() + after.min(HELD);
                if !usable || !self.book().again(handle, at) {
                    return Err(self.stale());
                }
                self.bell.notify_waiters();
                Ok(())
            }
            Nack::Dead(_) => {
                let dead = BasicRejectOptions { requeue: false };
                self.end(handle, async |acker| acker.reject(dead).await).await
            }
        }
    }

    /// There is nothing to ask for: what is out stays out while the connection lives.
    async fn extend(&self, handle: Handle, _by: Duration) -> Result<(), Refusal> {
        let usable = self.book().acker(handle).is_some_and(|acker| acker.usable());
        if usable { Ok(()) } else { Err(self.stale()) }
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.bell.notify_waiters();
        if let Some(joined) = self.joint.part().await {
            joined.line.close().await;
        }
        self.book().clear();
    }
}

impl fmt::Debug for RabbitMqFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues: Vec<_> = self.plan.queues.iter().map(|queue| &queue.name).collect();
        f.debug_struct("RabbitMqFeed").field("queues", &queues).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn options(url: &str, topics: &[&str]) -> FeedOptions {
        let subscription = Subscription::new("billing", topics);
        FeedOptions::new(Secret::new(url), "orders", subscription)
    }

    #[test]
    fn what_cannot_be_is_refused_without_secrets() {
        for wrong in [options("amqp://u:canary@h:x", &["a"]), options("amqp://u:canary@h", &[])] {
            let cause = RabbitMqFeed::new(wrong).unwrap_err();
            assert!(cause.code == Code::ConfigInvalid && !cause.detail.contains("canary"));
        }
    }

    #[test]
    fn a_queue_brings_more_than_may_be_in_hand() {
        assert_eq!([0, 1, 64].map(prefetch), [4, 4, 256]);
        assert_eq!([usize::MAX, 20_000].map(prefetch), [u16::MAX; 2]);
    }

    #[tokio::test]
    async fn nobody_there_is_down_and_soon_said_after_a_close() {
        let feed = RabbitMqFeed::new(options("amqp://u:p@127.0.0.1:1", &["a"])).unwrap();
        let down = feed.next(Duration::from_secs(5)).await;
        assert!(matches!(down, Err(Refusal::Down(_))), "{down:?}");
        assert!(matches!(feed.ack(Handle(1)).await, Err(Refusal::Unknown(_))));
        assert!(matches!(feed.nack(Handle(1), Nack::Again(SOON)).await, Err(Refusal::Unknown(_))));
        assert!(feed.extend(Handle(1), SOON).await.is_err());
        feed.close().await;
        assert!(matches!(feed.next(Duration::ZERO).await, Err(Refusal::Down(_))));
    }
}
