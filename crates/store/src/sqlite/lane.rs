//! One lane's view of the outbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Claim, Millis, Settled, Settlement, Source, StoreError, Want};
use sqlx::SqliteConnection;

use super::base::Base;
use super::claim::{Claiming, named, renew};
use super::error::Fault;
use super::glance::{ONLY, SHARD, look};
use super::settle::{Settling, run};
use super::writer::{Work, Writer};
use crate::own::{Look, May, Seen};

/// The shortest and the longest time between two looks of a lane that waits.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

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
            holding.desks[self.lane].heard = heard;
        }
        let glance = self.glance(None).await?;
        let may = self.base.holding().may(&glance, want.lease);
        match may {
            May::Nothing => {
                let mut holding = self.base.holding();
                if holding.lost(&glance) {
                    holding.lose(ONLY);
                }
                Ok(Vec::new())
            }
            May::Idle => {
                let seen = Seen { now: glance.now, newest: glance.newest };
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
        self.writer.run(Releasing { lane: self.lane }).await
    }
}

impl SqliteLane {
    async fn glance(&self, seen: Option<Seen>) -> Result<Look, StoreError> {
        let cursor = self.base.holding().desks[self.lane].cursor(ONLY);
        let after = seen.map_or(Millis(i64::MIN), |seen| seen.now);
        let look = async {
            let mut conn = self.base.reader().await?;
            look(&self.base, &mut conn, cursor, after).await
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
        let mut glance = self.glance(seen).await?;
        if seen.is_some_and(|seen| seen.newest < glance.newest) {
            seen = None;
            self.base.holding().desks[self.lane].seen = None;
            glance = self.glance(seen).await?;
        }
        let (may, runs_down) = {
            let holding = self.base.holding();
            (holding.may(&glance, lease), holding.runs_down(&glance, lease))
        };
        if runs_down {
            self.writer.run(Renewing { lane: self.lane }).await?;
        }
        if matches!(may, May::Keep | May::Take) || rings != heard {
            return Ok(None);
        }
        let moment = if may == May::Nothing { Some(glance.until) } else { glance.due };
        let next = moment.map_or(Duration::MAX, |moment| moment.since(glance.now));
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
        let cursor = base.holding().desks[self.lane].cursor(ONLY);
        let glance = look(base, conn, cursor, Millis(i64::MIN)).await?;
        let (may, lease) = {
            let holding = base.holding();
            (holding.may(&glance, holding.lease), holding.lease)
        };
        if matches!(may, May::Renew | May::Keep) {
            renew(base, conn, &glance, lease, None).await?;
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
        let Some(fence) = base.holding().held(ONLY) else { return Ok(()) };
        let glance = look(base, conn, 0, Millis(i64::MIN)).await?;
        if base.holding().lost(&glance) {
            base.holding().lose(ONLY);
            return Ok(());
        }
        let (back, out, alone) = {
            let holding = base.holding();
            let desk = &holding.desks[self.lane];
            let back: Vec<(i64, i64)> =
                desk.later_out(ONLY).into_iter().map(|number| (number, glance.now.0)).collect();
            let alone = holding.is_quiet(ONLY, Some(self.lane));
            (back, named(&holding.out(ONLY, &desk.hot_out(ONLY))), alone)
        };
        run(&base.sql.release_later, conn, &back, glance.now).await?;
        if alone {
            let query = base.sql.hand_over.query().bind(SHARD).bind(&base.owner).bind(fence.0);
            query.execute(conn).await?;
            base.holding().lose(ONLY);
        } else {
            let query = base.sql.renew.query().bind(SHARD).bind(&base.owner).bind(fence.0);
            query.bind(glance.until.0).bind(out).execute(conn).await?;
            base.holding().desks[self.lane].clear(ONLY);
        }
        Ok(())
    }

    fn undone(&mut self, base: &Base) {
        base.holding().lose(ONLY);
    }
}
