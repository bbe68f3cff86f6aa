//! How a delivery is kept from others, and how the broker is told what became of it.
//!
//! Of one delivery, one thing at a time is asked: an extension may give it another name at the
//! broker, and what is said under the old one is not heard.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use event::{Cause, Consumed, Delivery, EventId, Handle, Millis, Nack, Refusal};
use tokio::time::{Instant, sleep};

use super::super::rest::pause;
use super::{Database, Shift, Tx, Worked, cause};

impl<DB: Database, W> Shift<DB, W>
where
    DB::Connection: Tx,
{
    /// Does something while a delivery is kept from others. An extension that is under way then is
    /// waited for.
    pub(super) async fn keep<T>(&self, handle: Handle, doing: impl Future<Output = T>) -> T {
        let (feed, lease) = (&self.consumer.feed, self.consumer.lease);
        let mut doing = pin!(doing);
        loop {
            tokio::select! {
                done = &mut doing => return done,
                () = sleep(lease / 3) => {}
            }
            // If it is somebody else's by now, the inbox sees to it that one of us works.
            let mut extending = feed.extend(handle, lease);
            tokio::select! {
                done = &mut doing => {
                    let _ = extending.await;
                    return done;
                }
                _ = &mut extending => {}
            }
        }
    }

    /// Tells the broker what became of it. What it does not hear comes again, and is known then.
    pub(super) async fn end(&self, delivery: &Delivery, worked: Worked) {
        let (feed, patience) = (&self.consumer.feed, &self.consumer.patience);
        let (handle, id) = (delivery.handle, delivery.event.as_ref().ok().map(|event| event.id));
        let what = match worked {
            Worked::First(_) | Worked::Before => {
                let _ = feed.ack(handle).await;
                self.rest.over();
                match worked {
                    Worked::First(work) => Consumed::First { work, age: age(delivery) },
                    _ => Consumed::Before,
                }
            }
            Worked::Left | Worked::Wait(..) => return self.put_back(handle).await,
            Worked::Never(cause) => self.bury(handle, cause).await,
            Worked::Failed(cause) => {
                let (attempt, chance) = (delivery.attempt, fastrand::f64());
                let known = id.unwrap_or_else(EventId::new);
                match patience.judge(known, attempt, cause.clone(), chance) {
                    Nack::Dead(cause) => self.bury(handle, cause).await,
                    again @ Nack::Again(_) => {
                        let _ = feed.nack(handle, again).await;
                        Consumed::Again(cause)
                    }
                }
            }
        };
        if let (Some(id), false) = (id, matches!(what, Consumed::Again(_))) {
            patience.forget(id);
        }
        self.tell(&what);
    }

    /// Gives an event up, and says so until the broker has heard it: some leave what nobody ended
    /// with its holder for good. What is no longer ours, or is left at the stop, comes again.
    async fn bury(&self, handle: Handle, why: Cause) -> Consumed {
        let (feed, lease) = (&self.consumer.feed, self.consumer.lease);
        let (mut times, mut ours) = (0_u32, Instant::now() + lease);
        while let Err(refusal) = feed.nack(handle, Nack::Dead(why.clone())).await {
            self.tell(&Consumed::Away(cause(refusal)));
            times = times.saturating_add(1);
            tokio::select! {
                biased;
                () = self.stopped() => {
                    self.put_back(handle).await;
                    return Consumed::Again(why);
                }
                () = sleep(pause(times, fastrand::f64()).min(lease / 3)) => {}
            }
            let lost = match feed.extend(handle, lease).await {
                Ok(()) => {
                    ours = Instant::now() + lease;
                    false
                }
                Err(refusal) => matches!(refusal, Refusal::Reject(_)) || Instant::now() >= ours,
            };
            if lost {
                return Consumed::Again(why);
            }
        }
        Consumed::Dead(why)
    }

    /// Gives back what nobody worked on.
    pub(super) async fn put_back(&self, handle: Handle) {
        let _ = self.consumer.feed.nack(handle, Nack::Again(Duration::ZERO)).await;
    }
}

/// Returns how old the event of a delivery is by this machine's clock.
fn age(delivery: &Delivery) -> Duration {
    let created = delivery.event.as_ref().map_or_else(|_| Millis::now(), |event| event.created);
    Duration::from_millis(u64::try_from(Millis::now().0 - created.0).unwrap_or_default())
}
