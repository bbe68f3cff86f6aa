//! Consuming from RocketMQ as a simple consumer: what came stays invisible to others for its
//! lease, and is ended one by one.
//!
//! Polls run beside the caller, because one that is cut off may have taken events along which then
//! are gone until their lease ends. What they bring waits on a [`Shelf`](shelf::Shelf). A feed that
//! nobody asks any more polls no further, and gives back what waits: others may want it.
//!
//! Order per key: a key is in one queue, and of a FIFO group a broker hands out nothing more of a
//! queue before what it handed out is ended or due again. So of a FIFO group one event per queue is
//! asked for at a time: of several, an ack behind one that is not ended would be forgotten.

mod calls;
mod demand;
mod poll;
mod session;
mod shelf;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Delivery, Feed, Handle, Nack, Refusal};
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use self::demand::Demand;
use self::session::Session;
use self::shelf::{Parcel, Shelf};
use super::wire::Line;
use super::{Access, address};
use crate::manner::Subscription;

/// The longest that a proxy hides an event: 12 hours, less what a call may take.
const LONGEST: Duration = Duration::from_secs(12 * 3600 - 60);

/// Soon, for what goes back.
const SOON: Duration = Duration::from_millis(1);

/// Hands out what came to one group.
pub struct RocketMqFeed {
    inner: Arc<Inner>,
    running: Mutex<JoinSet<()>>,
}

struct Inner {
    line: Line,
    wants: Subscription,
    session: Session,
    shelf: Mutex<Shelf>,
    /// Something came, or something went wrong.
    news: Notify,
    /// There may be room for more.
    room: Notify,
    demand: Demand,
    /// A poll has ended.
    calm: Notify,
    trouble: Mutex<Option<Refusal>>,
    stop: CancellationToken,
}

impl RocketMqFeed {
    /// Checks what is wanted. Nothing is connected yet.
    pub fn new(access: &Access, subscription: Subscription) -> Result<RocketMqFeed, Cause> {
        let invalid = |why: String| Cause::new(Code::ConfigInvalid, why);
        // How short it may be, only the proxy knows: 10 s, unless it was told otherwise.
        if subscription.lease > LONGEST {
            return Err(invalid(format!("lease: RocketMQ grants {} s", LONGEST.as_secs())));
        }
        if subscription.topics.is_empty() || subscription.group.is_empty() {
            return Err(invalid("a group and at least one topic are needed".to_owned()));
        }
        let places = address::read(&access.url)?;
        let line = Line::new(access, &places, subscription.timeout)?;
        let shelf = Mutex::new(Shelf::new(subscription.most));
        let demand = Demand::new(subscription.lease / 2);
        let inner = Inner {
            line,
            wants: subscription,
            session: Session::default(),
            shelf,
            news: Notify::new(),
            room: Notify::new(),
            demand,
            calm: Notify::new(),
            trouble: Mutex::new(None),
            stop: CancellationToken::new(),
        };
        Ok(RocketMqFeed { inner: Arc::new(inner), running: Mutex::new(JoinSet::new()) })
    }

    fn start(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_empty() && !self.inner.stop.is_cancelled() {
            running.spawn(poll::run(Arc::clone(&self.inner)));
        }
    }
}

impl fmt::Debug for RocketMqFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subscription { group, topics, .. } = &self.inner.wants;
        let mut out = f.debug_struct("RocketMqFeed");
        out.field("group", group).field("topics", topics).finish_non_exhaustive()
    }
}

#[async_trait]
impl Feed for RocketMqFeed {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        self.start();
        let inner = &self.inner;
        let _asking = inner.demand.ask();
        let until = Instant::now() + at_most;
        loop {
            let news = inner.news.notified();
            if let Some(delivery) = inner.shelf().take(Instant::now()) {
                return Ok(Some(delivery));
            }
            if let Some(refusal) = inner.trouble().take() {
                return Err(refusal);
            }
            if timeout_at(until, news).await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        let parcel = self.inner.held(handle)?;
        self.inner.acknowledge(&parcel).await?;
        self.inner.ended(handle);
        Ok(())
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        let parcel = self.inner.held(handle)?;
        match nack {
            Nack::Again(after) => {
                let after = after.clamp(SOON, LONGEST);
                self.inner.hide(&parcel, after).await?;
            }
            Nack::Dead(_) => self.inner.bury(&parcel).await?,
        }
        self.inner.ended(handle);
        Ok(())
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        let parcel = self.inner.held(handle)?;
        let by = by.clamp(SOON, LONGEST);
        let until = Instant::now() + by;
        let receipt = self.inner.hide(&parcel, by).await?;
        self.inner.shelf().renew(handle, receipt, until);
        Ok(())
    }

    /// Waits for the polls that are out, which may have events in hand: some seconds.
    async fn close(&self) {
        let inner = &self.inner;
        inner.stop.cancel();
        let _ = timeout(poll::POLL + Duration::from_secs(1), inner.calm()).await;
        let mut running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *running)
        };
        running.shutdown().await;
        let left = inner.shelf().clear(Instant::now());
        join_all(left.iter().map(|parcel| inner.hide(parcel, SOON))).await;
        inner.take_leave().await;
        inner.line.close();
    }
}

impl Inner {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self, handle: Handle) -> Result<Parcel, Refusal> {
        let gone = "this delivery was ended before, or its lease ran out long ago";
        let gone = || Refusal::Reject(Cause::new(Code::SinkRefused, gone));
        self.shelf().held(handle).cloned().ok_or_else(gone)
    }

    fn ended(&self, handle: Handle) {
        self.shelf().end(handle);
        self.room.notify_one();
    }

    /// Waits until no poll is out.
    async fn calm(&self) {
        loop {
            let ended = self.calm.notified();
            if self.shelf().is_calm() {
                return;
            }
            ended.await;
        }
    }

    /// Gives back what waits while nobody asks for it.
    async fn tidy(&self) {
        let left = self.shelf().unwanted(Instant::now());
        // What cannot be told is given back by its lease.
        join_all(left.iter().map(|parcel| self.hide(parcel, SOON))).await;
        self.room.notify_one();
    }
}
