//! One lane's view of the outbox.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Aside, Claim, Millis, Settled, Settlement, Source, StoreError, Want};
use tokio::sync::Semaphore;

use super::base::Base;
use super::claim::claim;
use super::dialect::Dialect;
use super::glance::{Glance, Glancing};
use super::lease::{Renewal, Renewing};
use super::release::release;
use super::settle::{Told, settle, take_in};
use super::together::Together;
use super::work::carried;
use crate::own::May;

/// The shortest and the longest time between two looks of a lane that waits.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// One lane of one handle.
pub(super) struct ServerLane<D: Dialect> {
    base: Arc<Base<D>>,
    lane: usize,
    asks: Arc<Asks<D>>,
}

/// What the turns of one lane ask for at the same time.
pub(super) struct Asks<D: Dialect> {
    pub(super) claims: Together<Want, Vec<Claim>>,
    pub(super) settlements: Together<Vec<Settlement>, Told>,
    /// Whose turn it is to write outcomes down: while one waits for the server, those of the others
    /// are gathered, which costs the server less than writing them apart.
    pub(super) writing: Semaphore,
    /// What the newest claim saw, if it took all that it wanted.
    kept: Mutex<Option<KeptGlance<D>>>,
    /// How many settle now.
    settling: AtomicUsize,
    /// Whether the newest claim took all that it wanted, so that the next one is about to come.
    busy: AtomicBool,
}

/// Somebody who is counted among others.
struct Under<'a>(&'a AtomicUsize);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[async_trait]
impl<D: Dialect> Source for ServerLane<D> {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        {
            let heard = *self.base.bell.borrow();
            let mut holding = self.base.holding();
            holding.lease = want.lease;
            holding.desks[self.lane].heard = heard;
        }
        let (base, lane, asks, want) = (self.base.clone(), self.lane, self.asks.clone(), *want);
        let beside = asks.settling.load(Relaxed) > 0;
        carried(tokio::spawn(async move { claim(&base, lane, &asks, want, beside).await })).await
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let (base, lane, asks) = (self.base.clone(), self.lane, self.asks.clone());
        let ends = ends.to_vec();
        asks.settling.fetch_add(1, Relaxed);
        let _settling = Under(&self.asks.settling);
        carried(tokio::spawn(async move { settle(&base, lane, &asks, ends).await })).await
    }

    async fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut bell = self.base.bell.subscribe();
        let mut pause = LOOK.0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let rings = *bell.borrow_and_update();
            let next = match self.look(rings).await {
                Ok(Some(next)) if !left.is_zero() => next,
                Err(_) if !left.is_zero() => LOOK.1,
                _ => return,
            };
            let pause_now = pause.min(next).min(left);
            if let Ok(rung) = tokio::time::timeout(pause_now, bell.changed()).await {
                // The bell hangs as long as the handle does.
                rung.expect("a lane keeps its bell");
            }
            pause = (pause * 2).min(LOOK.1);
        }
    }

    async fn release(&self) -> Result<(), StoreError> {
        let (base, lane) = (self.base.clone(), self.lane);
        carried(tokio::spawn(async move { release(&base, lane).await })).await
    }

    fn aside(&self) -> Aside {
        Aside { stands_by: self.base.holding().desks[self.lane].stands_by, outrun: 0 }
    }
}

/// A glance that may serve more than one claim.
pub(super) struct KeptGlance<D: Dialect> {
    pub(super) glance: Glance<D>,
    /// When it was made, and when the claim ended that made or used it last.
    pub(super) made: Instant,
    pub(super) used: Instant,
    /// What the relay held when it was made, by how often that had changed.
    pub(super) changes: u64,
}

impl<D: Dialect> Default for Asks<D> {
    fn default() -> Self {
        Asks {
            claims: Together::default(),
            settlements: Together::default(),
            writing: Semaphore::new(1),
            kept: Mutex::default(),
            settling: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
        }
    }
}

impl<D: Dialect> Asks<D> {
    /// Opens what the newest claim saw.
    pub(super) fn kept(&self) -> MutexGuard<'_, Option<KeptGlance<D>>> {
        self.kept.lock().expect("nothing panics while the glance is open")
    }

    /// Learns whether a claim took all that it wanted.
    pub(super) fn claimed(&self, all: bool) {
        self.busy.store(all, Relaxed);
    }

    /// Tells whether the newest claim took all that it wanted.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }
}

impl<D: Dialect> ServerLane<D> {
    pub(super) fn new(base: Arc<Base<D>>, lane: usize) -> ServerLane<D> {
        ServerLane { base, lane, asks: Arc::default() }
    }

    async fn glance(&self, seen: Millis) -> Result<Glance<D>, StoreError> {
        self.base.carry(Glancing { lane: self.lane, seen }).await
    }

    /// Looks whether there may be something to claim, and keeps the leases. Returns `None` if there
    /// may be, and else how long nothing can change by time alone.
    async fn look(&self, rings: u64) -> Result<Option<Duration>, StoreError> {
        // Else whoever has the turn is about to end, and the next look takes them in.
        if let Ok(turn) = self.base.turn.try_acquire() {
            take_in(&self.base, &turn);
        }
        let (seen, heard, lease) = {
            let holding = self.base.holding();
            let desk = &holding.desks[self.lane];
            (desk.seen, desk.heard, holding.lease)
        };
        if rings != heard {
            return Ok(None);
        }
        let mut glance = self.glance(seen.map_or(Millis(i64::MIN), |seen| seen.now)).await?;
        if seen.is_some_and(|seen| seen.newest < glance.newest) {
            self.base.holding().desks[self.lane].seen = None;
            glance = self.glance(Millis(i64::MIN)).await?;
        }
        let mut next = Duration::MAX;
        let mut down = Renewing { until: glance.now + lease, renewals: Vec::new() };
        {
            let (holding, sharing) = (self.base.holding(), self.base.sharing());
            for look in &glance.looks {
                let may = holding.may(self.lane, look, lease);
                let leaves = sharing.heirs.contains_key(&look.shard);
                let shut = sharing.shut.rests(look.shard);
                match (may, shut) {
                    (May::Take | May::Keep, Some(rest)) => next = next.min(rest),
                    (May::Take, None) => return Ok(None),
                    (May::Keep, None) if !leaves => return Ok(None),
                    _ => {}
                }
                let runs_down = shut.is_none() && holding.runs_down(look, lease);
                let held = holding.held(look.shard).filter(|_| runs_down);
                let renewal = |held| Renewal { shard: look.shard, held, out: None };
                down.renewals.extend(held.map(renewal));
                let moment = if may == May::Nothing { Some(look.until) } else { look.due };
                let rest = moment.map_or(Duration::MAX, |moment| moment.since(look.now));
                next = next.min(rest);
            }
        }
        if !down.renewals.is_empty() {
            self.base.carry(down).await?;
        }
        Ok(Some(next.max(Duration::from_millis(1))))
    }
}
