//! The feed of Redis Streams: one group per stream, each feed a consumer of its own in it.
//!
//! Of a key, this feed hands out no later event before the earlier one is ended. Feeds of one group
//! do not know of each other: with several, a key's events may be worked on side by side.
//!
//! Redis takes an acknowledgment from anyone in the group. So each is a small script that first
//! looks whose the entry is: who lost it ends nothing.

mod look;
mod read;
mod script;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Delivery, EventId, Feed, Handle, Nack, Refusal, Secret};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::read::{Hand, Reader};
use super::link::Link;
use crate::hand::stale;
use crate::manner::Subscription;

/// Takes events from streams, for one group.
pub struct RedisFeed {
    reader: Arc<Reader>,
    tasks: Mutex<JoinSet<()>>,
}

impl RedisFeed {
    /// Checks what is wanted. Nothing is connected yet.
    pub fn new(url: &Secret, subscription: Subscription) -> Result<RedisFeed, Cause> {
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, why);
        if subscription.group.is_empty() {
            return Err(invalid("a group has a name"));
        }
        if subscription.topics.iter().all(String::is_empty) {
            return Err(invalid("there are no streams to take from"));
        }
        if subscription.lease < Duration::from_millis(1) {
            return Err(invalid("a lease is a millisecond or longer"));
        }
        let link = Link::new(url, subscription.timeout)?;
        let hand = Hand::new(subscription.most, subscription.lease);
        let consumer = format!("postbox-{}", EventId::new());
        let reader = Arc::new(Reader::new(link, hand, subscription, consumer));
        Ok(RedisFeed { reader, tasks: Mutex::default() })
    }

    fn start(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            let reader = Arc::clone(&self.reader);
            tasks.spawn(async move { reader.run().await });
        }
    }
}

impl fmt::Debug for RedisFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFeed").field("host", &self.reader.link.host).finish_non_exhaustive()
    }
}

#[async_trait]
impl Feed for RedisFeed {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        self.start();
        let (until, hand) = (Instant::now() + at_most, &self.reader.hand);
        loop {
            let Some(delivery) = hand.next(until).await? else { return Ok(None) };
            if hand.age(delivery.handle) <= hand.lease() / 8 {
                return Ok(Some(delivery));
            }
            // It has waited: its holder shall have a whole lease, unless somebody else has it.
            match self.extend(delivery.handle, hand.lease()).await {
                Err(Refusal::Reject(_)) => {}
                _ => return Ok(Some(delivery)),
            }
        }
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        let held = self.reader.hand.find(handle)?;
        if !self.reader.call(script::ack(&held.ticket)).await? {
            self.reader.hand.lost(&held.place);
            return Err(stale());
        }
        self.reader.hand.end(handle);
        Ok(())
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        let held = self.reader.hand.find(handle)?;
        let done = match &nack {
            Nack::Again(after) => self.reader.rest(&held.place, &held.ticket, *after).await?,
            Nack::Dead(cause) => {
                self.reader.call(script::bury(&held.ticket, &held.origin, cause)).await?
            }
        };
        match nack {
            _ if !done => {
                self.reader.hand.lost(&held.place);
                return Err(stale());
            }
            Nack::Again(after) => self.reader.hand.again(handle, after),
            Nack::Dead(_) => self.reader.hand.end(handle),
        }
        Ok(())
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        let (held, asked) = (self.reader.hand.find(handle)?, Instant::now());
        if !self.reader.call(script::renew(&held.ticket, Duration::ZERO)).await? {
            self.reader.hand.lost(&held.place);
            return Err(stale());
        }
        self.reader.hand.renewed(&held.place, asked);
        self.reader.hand.keep(handle, by);
        Ok(())
    }

    /// Gives everything back at once, so that others need not wait for the leases to run out.
    async fn close(&self) {
        let mut tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *tasks)
        };
        tasks.shutdown().await;
        self.reader.leave().await;
        self.reader.link.close().await;
    }
}
