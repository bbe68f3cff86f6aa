//! What is here of a feed, and what its broker is told about it: one call at a time for each
//! delivery, because a renewal changes the receipt, and an end under the old one ends nothing.
//!
//! A renewal whose answer is unknown leaves a receipt that is not sure. Then the next call asks for
//! one that is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Delivery, Handle, Nack, Refusal};
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::shelf::{Aged, Found, Parcel, Shelf, Turn};
use super::{LONGEST, SOON};
use crate::manner::Subscription;

/// What a broker is told about one delivery.
#[async_trait]
pub(super) trait Proxy: Send + Sync + 'static {
    /// Ends a delivery.
    async fn acknowledge(&self, parcel: &Parcel) -> Result<(), Refusal>;
    /// Hides a parcel from everybody for so long from now; returns its new receipt.
    async fn hide(&self, parcel: &Parcel, duration: Duration) -> Result<String, Refusal>;
    /// Puts a parcel where the broker keeps what was given up.
    async fn bury(&self, parcel: &Parcel) -> Result<(), Refusal>;
}

/// All that is here of one feed, and who is told.
#[derive(Debug)]
pub(super) struct Keep<P> {
    pub(super) proxy: P,
    lease: Duration,
    shelf: Mutex<Shelf>,
    /// Something may be handed out, or went wrong.
    pub(super) news: Notify,
    /// There may be room for more.
    pub(super) room: Notify,
    /// A poll has ended.
    calm: Notify,
}

/// Room for parcels that are on their way. It is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Room<'a, P> {
    keep: &'a Keep<P>,
    pub(super) count: usize,
}

impl<P> Keep<P> {
    pub(super) fn new(proxy: P, wants: &Subscription) -> Keep<P> {
        let shelf = Mutex::new(Shelf::new(wants.most, wants.lease));
        let (news, room, calm) = (Notify::new(), Notify::new(), Notify::new());
        Keep { proxy, lease: wants.lease, shelf, news, room, calm }
    }

    /// Keeps room for at most so many, if there is any.
    pub(super) fn reserve(&self, wanted: usize) -> Option<Room<'_, P>> {
        let count = self.shelf().reserve(wanted, Instant::now());
        // Only if there is any: to drop it wakes whoever waits for room.
        (count > 0).then(|| Room { keep: self, count })
    }

    /// Takes in what came.
    pub(super) fn arrive(&self, parcel: Parcel) {
        self.shelf().arrive(parcel);
        self.news.notify_one();
    }

    /// Tells whether no poll is out.
    pub(super) fn is_calm(&self) -> bool {
        self.shelf().is_calm()
    }

    /// Waits until no poll is out.
    pub(super) async fn calm(&self) {
        loop {
            let ended = self.calm.notified();
            if self.is_calm() {
                return;
            }
            ended.await;
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> Drop for Room<'_, P> {
    fn drop(&mut self) {
        self.keep.shelf().unreserve(self.count);
        self.keep.calm.notify_waiters();
        self.keep.room.notify_one();
    }
}

impl<P: Proxy> Keep<P> {
    /// Hands out the first that waits, with most of its lease left.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Option<Delivery>, Refusal> {
        loop {
            let found = self.shelf().take(Instant::now());
            match found {
                None => return Ok(None),
                Some(Found::Ready(delivery)) => return Ok(Some(delivery)),
                Some(Found::Aged(aged)) => {
                    let keep = Arc::clone(self);
                    whole(async move { keep.refresh(aged).await }).await?;
                }
            }
        }
    }

    /// Renews what has waited long. What cannot be renewed comes again after its lease.
    pub(super) async fn refresh_all(&self) {
        let aged = self.shelf().aged(Instant::now());
        join_all(aged.into_iter().map(|aged| self.refresh(aged))).await;
    }

    /// Gives back what waits.
    pub(super) async fn give_back(&self) {
        let left = self.shelf().unwanted(Instant::now());
        self.return_all(&left).await;
        self.room.notify_one();
    }

    /// Gives back everything.
    pub(super) async fn clear(&self) {
        let left = self.shelf().clear(Instant::now());
        self.return_all(&left).await;
    }

    pub(super) async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        let (_turn, parcel) = self.sure(handle).await?;
        self.proxy.acknowledge(&parcel).await?;
        self.ended(handle);
        Ok(())
    }

    pub(super) async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        let (_turn, parcel) = self.sure(handle).await?;
        match nack {
            Nack::Again(after) => {
                self.renew(handle, &parcel, after.clamp(SOON, LONGEST)).await?;
            }
            Nack::Dead(_) => self.proxy.bury(&parcel).await?,
        }
        self.ended(handle);
        Ok(())
    }

    /// Keeps a delivery longer. A caller that does not wait for it may end the delivery all the
    /// same: that waits for the new receipt.
    pub(super) async fn extend(
        self: &Arc<Self>,
        handle: Handle,
        by: Duration,
    ) -> Result<(), Refusal> {
        let (turn, parcel) = self.turn(handle).await?;
        let keep = Arc::clone(self);
        let extended = async move {
            let _turn = turn;
            keep.renew(handle, &parcel, by.clamp(SOON, LONGEST)).await
        };
        whole(extended).await
    }

    /// Waits until nobody else asks about a delivery.
    async fn turn(&self, handle: Handle) -> Result<(Turn, Parcel), Refusal> {
        let turn = self.held(handle)?.turn.lock_owned().await;
        // Whoever had the turn before may have ended it, or has changed its receipt.
        Ok((turn, self.held(handle)?))
    }

    /// The same, with a receipt that the broker knows.
    async fn sure(&self, handle: Handle) -> Result<(Turn, Parcel), Refusal> {
        let (turn, parcel) = self.turn(handle).await?;
        if parcel.sure {
            return Ok((turn, parcel));
        }
        self.renew(handle, &parcel, self.lease).await?;
        Ok((turn, self.held(handle)?))
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

    /// Renews what waits. What is somebody else's by now is forgotten.
    async fn refresh(&self, Aged { handle, parcel, turn }: Aged) -> Result<(), Refusal> {
        let renewed = self.renew(handle, &parcel, self.lease).await;
        drop(turn);
        self.news.notify_one();
        if let Err(Refusal::Reject(_)) = renewed {
            self.ended(handle);
            return Ok(());
        }
        renewed
    }

    /// Whoever calls it has the turn.
    async fn renew(&self, handle: Handle, parcel: &Parcel, by: Duration) -> Result<(), Refusal> {
        let until = Instant::now() + by;
        self.shelf().trust(handle, false);
        match self.proxy.hide(parcel, by).await {
            Ok(receipt) => {
                self.shelf().renew(handle, receipt, until);
                Ok(())
            }
            Err(unknown @ Refusal::Unknown(_)) => Err(unknown),
            Err(refusal) => {
                // Nothing was changed, so it is as sure as it was.
                self.shelf().trust(handle, parcel.sure);
                Err(refusal)
            }
        }
    }

    async fn return_all(&self, parcels: &[Parcel]) {
        // What cannot be told is given back by its lease.
        join_all(parcels.iter().map(|parcel| self.proxy.hide(parcel, SOON))).await;
    }
}

/// Does it to its end, even if nobody waits for it: half a renewal is a receipt that nobody knows.
async fn whole(
    does: impl Future<Output = Result<(), Refusal>> + Send + 'static,
) -> Result<(), Refusal> {
    let broken = |_| Err(Refusal::Unknown(Cause::new(Code::SinkBroken, "a renewal broke off")));
    tokio::spawn(does).await.unwrap_or_else(broken)
}

#[cfg(test)]
mod tests;
