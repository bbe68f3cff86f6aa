//! One lane's view of an outbox whose relays compete.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Aside, Claim, Settled, Settlement, Shelf, Source, StoreError, Want};
use tokio::sync::Semaphore;

use super::super::base::Base;
use super::super::dialect::Dialect;
use super::super::together::Together;
use super::super::work::carried;
use super::claim::{Taken, claim};
use super::see::{Seeing, Seen};
use super::settle::{Ended, release, settle};
use crate::compete::{Flight, Out, Pace, Start};

/// One lane of one handle.
pub(in crate::server) struct CompetingLane<D: Dialect>(Arc<Lane<D>>);

/// What the lane's turns share.
pub(super) struct Lane<D: Dialect> {
    pub(super) base: Arc<Base<D>>,
    pub(super) index: usize,
    /// Whose turn it is to claim: the turns of one lane never compete with each other.
    pub(super) turn: Semaphore,
    pub(super) claims: Together<Want, Vec<Claim>>,
    /// Whose turn it is to write outcomes down.
    pub(super) writing: Semaphore,
    pub(super) settlements: Together<Vec<Settlement>, Settled>,
    pub(super) start: Mutex<Start>,
    flight: Mutex<Flight>,
    pace: Mutex<Pace>,
    kept: Mutex<Option<KeptSeen<D>>>,
}

/// A look that may serve more than one claim: when it was made, and when it was used last.
pub(super) struct KeptSeen<D: Dialect> {
    pub(super) seen: Seen<D>,
    pub(super) made: Instant,
    pub(super) used: Instant,
    /// The server that it is about, by its count.
    pub(super) era: u64,
}

impl<D: Dialect> CompetingLane<D> {
    /// Opens the lane that has the desk at `index`.
    pub(in crate::server) fn new(base: Arc<Base<D>>, index: usize) -> CompetingLane<D> {
        CompetingLane(Arc::new(Lane {
            base,
            index,
            turn: Semaphore::new(1),
            claims: Together::default(),
            writing: Semaphore::new(1),
            settlements: Together::default(),
            start: Mutex::new(Start::anywhere()),
            flight: Mutex::default(),
            pace: Mutex::default(),
            kept: Mutex::default(),
        }))
    }
}

impl<D: Dialect> Lane<D> {
    /// Opens what is in flight.
    pub(super) fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().expect("no rule panics while the flight is open")
    }

    /// Opens what is in flight on the server that answers, and says which that is.
    pub(super) fn flight_now(&self) -> (u64, MutexGuard<'_, Flight>) {
        let era = self.base.holding().era;
        let mut flight = self.flight();
        flight.meet(era);
        (era, flight)
    }

    /// Opens the pace.
    pub(super) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().expect("no rule panics while the pace is open")
    }

    /// Opens what the newest claim saw, if one line had all that it wanted.
    pub(super) fn kept(&self) -> MutexGuard<'_, Option<KeptSeen<D>>> {
        self.kept.lock().expect("nothing panics while the look is open")
    }

    /// Remembers what some claims took, and returns it.
    pub(super) fn keep(&self, taken: Taken, era: u64) -> Vec<Vec<Claim>> {
        let Taken { claims, mut trails, outrun, now, until } = taken;
        self.base.holding().desks[self.index].outrun += outrun;
        let mut flight = self.flight();
        flight.meet(era);
        flight.forget(now);
        for claim in claims.iter().flatten() {
            let later = claim.address.shelf == Shelf::Later;
            let trail = if later { trails.remove(&claim.address.number) } else { None };
            flight.keep(claim, trail.unwrap_or_default(), until);
        }
        drop(flight);
        self.pace().claimed(claims.iter().flatten().count());
        let sizes = || claims.iter().flatten().map(|claim| claim.event.payload.len());
        if let Some(weight) = sizes().sum::<usize>().checked_div(sizes().count()) {
            self.base.holding().desks[self.index].weight = weight;
        }
        claims
    }

    /// Lets go of claims that were to be settled. What was not is looked for where it was.
    pub(super) fn end(&self, rows: &[(Settlement, Out)], ended: &Ended) {
        rows.iter().for_each(|(end, _)| self.flight().end(end));
        let stale = |end: &&Settlement| !ended.contains(&(end.address, end.fence, end.id));
        let mut holding = self.base.holding();
        for end in rows.iter().map(|(end, _)| end).filter(stale) {
            if end.address.shelf == Shelf::Hot {
                let part = holding.desks[self.index].part(end.address.shard);
                part.sight.miss(end.address.number);
            }
        }
    }

    /// Looks whether there may be something to claim. Returns `None` if there may be, and else how
    /// long nothing can change by time alone.
    async fn look(&self, lease: Duration) -> Result<Option<Duration>, StoreError> {
        let mut seeing = Seeing { lane: self.index, lease, start: &self.start };
        let seen = self.base.work(&mut seeing).await?;
        Ok(if seen.stirs(lease) { None } else { Some(seen.rest()) })
    }
}

#[async_trait]
impl<D: Dialect> Source for CompetingLane<D> {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        self.0.pace().heard = *self.0.base.bell.borrow();
        self.0.base.holding().lease = want.lease;
        let (lane, want) = (self.0.clone(), *want);
        carried(tokio::spawn(async move { claim(&lane, want).await })).await
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let (lane, ends) = (self.0.clone(), ends.to_vec());
        carried(tokio::spawn(async move { settle(&lane, ends).await })).await
    }

    async fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut bell = self.0.base.bell.subscribe();
        let lease = self.0.base.holding().lease;
        let mut next = Duration::MAX;
        for looks in 0.. {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || *bell.borrow_and_update() != self.0.pace().heard {
                return;
            }
            let pause = self.0.pace().pause(looks).min(next).min(left);
            if let Ok(rung) = tokio::time::timeout(pause, bell.changed()).await {
                // The bell hangs as long as the handle does.
                rung.expect("a lane keeps its bell");
                return;
            }
            let lane = self.0.clone();
            let look = carried(tokio::spawn(async move { lane.look(lease).await })).await;
            match look {
                Ok(None) => return,
                Ok(Some(rest)) => next = rest,
                Err(_) => next = Duration::MAX,
            }
        }
    }

    async fn release(&self) -> Result<(), StoreError> {
        let lane = self.0.clone();
        carried(tokio::spawn(async move { release(&lane).await })).await
    }

    fn aside(&self) -> Aside {
        let outrun = std::mem::take(&mut self.0.base.holding().desks[self.0.index].outrun);
        Aside { stands_by: false, outrun }
    }
}
