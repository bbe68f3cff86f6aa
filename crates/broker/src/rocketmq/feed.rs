//! Consuming from RocketMQ as a simple consumer: what came stays invisible to others for its
//! lease, and is ended one by one.
//!
//! Polls run beside the caller, because one that is cut off may have taken events along which then
//! are gone until their lease ends. What they bring waits on a [`Shelf`](shelf::Shelf), where it is
//! renewed. A feed that nobody asks any more polls no further, and gives back what waits: others
//! may want it.
//!
//! Order per key: a key is in one queue, and of a FIFO group a broker hands out nothing more of a
//! queue before what it handed out is ended or due again. So of a FIFO group one event per queue is
//! asked for at a time: of several, an ack behind one that is not ended would be forgotten.

mod calls;
mod demand;
mod keep;
mod poll;
mod session;
mod shelf;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Delivery, Feed, Handle, Nack, Refusal};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use self::calls::Wire;
use self::demand::Demand;
use self::keep::Keep;
use self::session::Session;
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
    keep: Arc<Keep<Wire>>,
    demand: Demand,
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
        let demand = Demand::new(subscription.lease / 2);
        let wire = Wire { line, wants: subscription.clone(), session: Session::default() };
        let keep = Arc::new(Keep::new(wire, &subscription));
        let (trouble, stop) = (Mutex::new(None), CancellationToken::new());
        let inner = Inner { keep, demand, trouble, stop };
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
        let Subscription { group, topics, .. } = self.inner.wants();
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
            let news = inner.keep.news.notified();
            match timeout_at(until, inner.keep.take()).await {
                Ok(Ok(None)) => {}
                Ok(taken) => return taken,
                Err(_) => return Ok(None),
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
        self.inner.keep.ack(handle).await
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        self.inner.keep.nack(handle, nack).await
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        self.inner.keep.extend(handle, by).await
    }

    /// Waits for the polls that are out, which may have events in hand: some seconds.
    async fn close(&self) {
        let inner = &self.inner;
        inner.stop.cancel();
        let _ = timeout(poll::POLL + Duration::from_secs(1), inner.keep.calm()).await;
        let mut running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *running)
        };
        running.shutdown().await;
        inner.keep.clear().await;
        inner.wire().take_leave().await;
        inner.wire().line.close();
    }
}

impl Inner {
    fn wire(&self) -> &Wire {
        &self.keep.proxy
    }

    fn wants(&self) -> &Subscription {
        &self.wire().wants
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
