//! One lane's view of the outbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Aside, Claim, Millis, Settled, Settlement, Source, StoreError, Want};
use sqlx::SqliteConnection;

use super::base::Base;
use super::claim::{Claiming, json, renew};
use super::error::Fault;
use super::glance::{LEASE, SHARD, glance};
use super::settle::{Settling, run};
use super::writer::{Work, Writer};
use crate::own::{Look, May, Seen};

/// The shortest and the longest time between two looks at the log file of a lane that waits.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// How long a lane trusts the log file alone: two commits in one tick of the file system's clock
/// look like one.
const BLIND: Duration = Duration::from_millis(500);

/// One lane of one handle.
pub(super) struct SqliteLane {
    pub(super) base: Arc<Base>,
    pub(super) writer: Writer,
    pub(super) lane: usize,
}

#[async_trait]
impl Source for SqliteLane {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        {
            let heard = *self.base.bell.borrow();
            let mut holding = self.base.holding();
            holding.lease = want.lease;
            let desk = &mut holding.desks[self.lane];
            (desk.heard, desk.stands_by) = (heard, false);
        }
        let look = self.glance(None).await?;
        let may = self.base.holding().may(self.lane, &look, want.lease);
        match may {
            May::Nothing => {
                let mut holding = self.base.holding();
                if holding.lost(&look) {
                    holding.lose(SHARD);
                }
                holding.desks[self.lane].stands_by = true;
                Ok(Vec::new())
            }
            May::Idle => {
                let seen = Seen { now: look.now, newest: look.newest };
                self.base.holding().desks[self.lane].seen = Some(seen);
                Ok(Vec::new())
            }
            May::Renew | May::Keep | May::Take => {
                self.writer.run(Claiming { lane: self.lane, want: *want }).await
            }
        }
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        self.writer.run(Settling::new(self.lane, ends)).await
    }

    async fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut bell = self.base.bell.subscribe();
        let (mut pause, mut look_at, mut log) = (LOOK.0, Instant::now(), None);
        loop {
            let now = Instant::now();
            let newest = self.base.newest_commit();
            let rings = *bell.borrow_and_update();
            if now >= look_at || newest != log || rings != self.heard() {
                log = newest;
                let next = match self.look(rings).await {
                    Ok(Some(next)) => next,
                    Ok(None) => return,
                    Err(_) => LOOK.1,
                };
                look_at = now + next.min(BLIND);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let pause_now = pause.min(look_at.saturating_duration_since(now)).min(left);
            if let Ok(rung) = tokio::time::timeout(pause_now, bell.changed()).await {
                // The bell hangs as long as the handle does.
                rung.expect("a lane keeps its bell");
            }
            pause = (pause * 2).min(LOOK.1);
        }
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.writer.run(Releasing { lane: self.lane }).await
    }

    fn aside(&self) -> Aside {
        Aside { stands_by: self.base.holding().desks[self.lane].stands_by, outrun: 0 }
    }
}

impl SqliteLane {
    fn heard(&self) -> u64 {
        self.base.holding().desks[self.lane].heard
    }

    async fn glance(&self, seen: Option<Seen>) -> Result<Look, StoreError> {
        let cursor = self.base.holding().desks[self.lane].cursor(SHARD);
        let after = seen.map_or(Millis(i64::MIN), |seen| seen.now);
        let look = async {
            let mut conn = self.base.reader().await?;
            glance(&self.base, &mut conn, cursor, after).await
        };
        look.await.map_err(StoreError::from)
    }

    /// Looks whether there may be something to claim, and keeps the lease. Returns `None` if there
    /// may be, and else how long nothing can change by time alone.
    async fn look(&self, rings: u64) -> Result<Option<Duration>, StoreError> {
        let (mut seen, heard, lease) = {
            let holding = self.base.holding();
            let desk = &holding.desks[self.lane];
            (desk.seen, desk.heard, holding.lease)
        };
        let mut look = self.glance(seen).await?;
        if seen.is_some_and(|seen| seen.newest < look.newest) {
            seen = None;
            self.base.holding().desks[self.lane].seen = None;
            look = self.glance(seen).await?;
        }
        let (may, runs_down) = {
            let holding = self.base.holding();
            (holding.may(self.lane, &look, lease), holding.runs_down(&look, lease))
        };
        if runs_down {
            self.writer.run(Renewing { lane: self.lane }).await?;
        }
        if matches!(may, May::Keep | May::Take) || rings != heard {
            return Ok(None);
        }
        let moment = if may == May::Nothing { Some(look.until) } else { look.due };
        let next = moment.map_or(Duration::MAX, |moment| moment.since(look.now));
        Ok(Some(next.max(Duration::from_millis(1))))
    }
}

/// Renews the lease of a lane that waits.
struct Renewing {
    lane: usize,
}

#[async_trait]
impl Work for Renewing {
    type Out = ();
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        let cursor = base.holding().desks[self.lane].cursor(SHARD);
        let look = glance(base, conn, cursor, Millis(i64::MIN)).await?;
        let (may, lease) = {
            let holding = base.holding();
            (holding.may(self.lane, &look, holding.lease), holding.lease)
        };
        if matches!(may, May::Renew | May::Keep) {
            renew(base, conn, look.mark, look.now + lease, None).await?;
        }
        Ok(())
    }
}

/// Puts what one lane has in flight back. The lease is handed over with it, unless another lane of
/// the handle is at work under it.
struct Releasing {
    lane: usize,
}

#[async_trait]
impl Work for Releasing {
    type Out = ();
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        let Some(held) = base.holding().held(SHARD) else { return Ok(()) };
        let fence = held.newest;
        let look = glance(base, conn, 0, Millis(i64::MIN)).await?;
        if base.holding().lost(&look) {
            base.holding().lose(SHARD);
            return Ok(());
        }
        let (back, out, alone) = {
            let holding = base.holding();
            let desk = &holding.desks[self.lane];
            let back: Vec<(i64, i64)> =
                desk.later_out(SHARD).map(|number| (number, look.now.0)).collect();
            let alone = holding.is_quiet(SHARD, Some(self.lane));
            (back, json(&holding.out(SHARD, &desk.hot_out(SHARD))), alone)
        };
        run(&base.sql.release_later, conn, &back, look.now).await?;
        if alone {
            let query = base.sql.hand_over.query().bind(LEASE).bind(&base.owner).bind(fence.0);
            query.execute(conn).await?;
            base.holding().lose(SHARD);
        } else {
            renew(base, conn, fence, look.until, Some(out)).await?;
            base.holding().desks[self.lane].clear(SHARD);
        }
        Ok(())
    }

    fn undone(&mut self, base: &Base) {
        base.holding().lose(SHARD);
    }
}
