//! One lane's view of the outbox.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Claim, Millis, Settled, Settlement, Source, StoreError, Want};
use tokio::sync::Semaphore;

use super::base::Base;
use super::claim::claim;
use super::dialect::Dialect;
use super::glance::{Glance, Glancing};
use super::lease::{Renewal, Renewing};
use super::release::release;
use super::settle::{settle, take_in};
use super::together::Together;
use super::work::carried;
use crate::own::May;

/// The shortest and the longest time between two looks of a lane that waits.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// How many settlements wait for no claim after one waited in vain.
const APART: u32 = 16;

/// One lane of one handle.
pub(super) struct ServerLane<D: Dialect> {
    base: Arc<Base<D>>,
    lane: usize,
    asks: Arc<Asks<D>>,
}

/// What the turns of one lane ask for at the same time.
pub(super) struct Asks<D: Dialect> {
    pub(super) claims: Together<Want, Vec<Claim>>,
    pub(super) settlements: Together<Vec<Settlement>, Settled>,
    /// Whose turn it is to write outcomes down: while one waits for the server, those of the others
    /// are gathered, which costs the server less than writing them apart.
    pub(super) writing: Semaphore,
    /// What the newest claim saw, if it took all that it wanted.
    kept: Mutex<Option<KeptGlance<D>>>,
    /// How many settle now.
    settling: AtomicUsize,
    /// Whether the newest claim took all that it wanted, so that the next one is about to come.
    busy: AtomicBool,
    /// Whether a claim is under way that has not taken settlements along yet.
    takes_along: AtomicBool,
    /// How many settlements wait for no claim, because one did in vain.
    apart: AtomicU32,
}

/// Somebody who is counted among others.
struct Under<'a>(&'a AtomicUsize);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A claim that has not taken settlements along yet.
pub(super) struct TakesAlong<'a>(&'a AtomicBool);

impl Drop for TakesAlong<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
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

    fn stands_by(&self) -> bool {
        self.base.holding().desks[self.lane].stands_by
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
            takes_along: AtomicBool::new(false),
            apart: AtomicU32::new(0),
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

    /// Tells whether a claim and a settlement of the same turn are likely to come together: where
    /// commits wait for the disk, and the last claim took all that it wanted.
    pub(super) fn come_together(&self) -> bool {
        D::ONE_COMMIT && self.is_busy() && self.apart.load(Relaxed) == 0
    }

    /// Tells whether a settlement waits for a claim that takes it along.
    pub(super) fn joins_claim(&self) -> bool {
        let together = self.come_together();
        let _ = self.apart.fetch_update(Relaxed, Relaxed, |apart| apart.checked_sub(1));
        together
    }

    /// Says that settlements may wait for a claim, until it has taken them along.
    pub(super) fn take_along(&self) -> TakesAlong<'_> {
        self.takes_along.store(true, Relaxed);
        TakesAlong(&self.takes_along)
    }

    /// Tells whether a claim is under way that has not taken settlements along yet.
    pub(super) fn takes_along(&self) -> bool {
        self.takes_along.load(Relaxed)
    }

    /// Learns that no claim came.
    pub(super) fn went_apart(&self) {
        self.apart.store(APART, Relaxed);
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
                if may == May::Take || may == May::Keep && !leaves {
                    return Ok(None);
                }
                let held = holding.held(look.shard).filter(|_| holding.runs_down(look, lease));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::MySql;
    use crate::postgres::Postgres;

    #[test]
    fn a_claim_and_a_settlement_come_together_where_much_waits_and_commits_wait_for_the_disk() {
        let asks = Asks::<MySql>::default();
        assert!(!asks.come_together());
        asks.claimed(true);
        assert!(asks.come_together());
        asks.claimed(false);
        assert!(!asks.come_together());
        let quick = Asks::<Postgres>::default();
        quick.claimed(true);
        assert!(!quick.come_together());
    }

    #[test]
    fn after_one_waited_in_vain_so_many_settlements_wait_for_no_claim() {
        let asks = Asks::<MySql>::default();
        asks.claimed(true);
        asks.went_apart();
        assert!((0..APART).all(|_| !asks.joins_claim()));
        assert!(asks.joins_claim());
    }
}
