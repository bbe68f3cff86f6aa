//! A claim: look, take or keep the leases, then hand out later rows that are due, then hot rows.
//!
//! Only later rows are written. Hot rows are ours by the lease, whose row names them: they are read
//! first, and the renewal then tells which shards were still ours.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{Claim, Fence, Millis, StoreError, Want};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::{Glancing, number};
use super::pick::Pick;
use super::rows;
use super::sharing::share;
use super::work::{Scope, Work};
use crate::own::{Look, May, Seen};

/// Claims for one lane.
pub(super) async fn claim(base: &Base, lane: usize, want: Want) -> Result<Vec<Claim>, StoreError> {
    let _turn = base.turn.lock().await;
    let looks = base.work(&mut Glancing { lane, seen: Millis(i64::MIN) }).await?;
    let now = looks.first().map_or(Millis(0), |look| look.now);
    share(base, looks.len(), now, want.lease).await?;
    let Some(mut claiming) = Claiming::new(base, lane, want, &looks) else {
        return Ok(Vec::new());
    };
    let claims = base.work(&mut claiming).await;
    if claims.is_err() {
        let mut holding = base.holding();
        claiming.stages.iter().for_each(|stage| holding.lose(stage.shard));
    }
    claims
}

/// What a claim does with one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) shard: u16,
    pub(super) fence: Fence,
    /// Whether the lease is taken, not kept.
    pub(super) take: bool,
    /// Whether hot rows are ahead, or may be.
    pub(super) hot: bool,
    /// Whether later rows are due, or may be.
    pub(super) later: bool,
    /// Whether the lease must be renewed in any case.
    pub(super) runs_down: bool,
}

struct Claiming {
    lane: usize,
    want: Want,
    now: Millis,
    newest: i64,
    stages: Vec<Stage>,
    writes: bool,
}

impl Claiming {
    /// Decides what each shard allows. Returns `None` when there is nothing to do.
    fn new(base: &Base, lane: usize, want: Want, looks: &[Look]) -> Option<Claiming> {
        let mut holding = base.holding();
        let sharing = base.sharing();
        let (now, newest) = looks.first().map(|look| (look.now, look.newest))?;
        let (mut stages, mut elsewhere) = (Vec::new(), false);
        for look in looks {
            if holding.lost(look) {
                holding.lose(look.shard);
            }
            let may = holding.may(look, want.lease);
            elsewhere |= may == May::Nothing;
            let runs_down = holding.runs_down(look, want.lease);
            let leaves = sharing.heirs.contains_key(&look.shard);
            let keep = may == May::Keep && !leaves;
            if keep || may == May::Take || runs_down {
                let take = may == May::Take;
                let (hot, later) = (take || keep && look.ahead, take || keep && look.is_due());
                let (shard, fence) = (look.shard, look.fence);
                stages.push(Stage { shard, fence, take, hot, later, runs_down });
            }
        }
        if stages.is_empty() && !elsewhere {
            holding.desks[lane].seen = Some(Seen { now, newest });
        }
        let writes = stages.iter().any(|stage| stage.take || stage.later);
        let claiming = Claiming { lane, want, now, newest, stages, writes };
        (!claiming.stages.is_empty()).then_some(claiming)
    }

    /// Opens the leases, so that nobody changes them before the end, and takes those that are free.
    async fn open(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let shards: Vec<i16> = self.stages.iter().map(|stage| number(stage.shard)).collect();
        let query = base.sql.lock.query().bind(base.now()).bind(shards);
        let mut ours = HashSet::new();
        for row in query.fetch_all(&mut *conn).await? {
            let shard = rows::shard(&row, 0)?;
            let (owner, fence): (&str, i64) = (row.try_get(1)?, row.try_get(2)?);
            let (until, now): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
            self.now = Millis(now);
            let mine = owner == base.owner;
            let stage = self.stages.iter().find(|stage| stage.shard == shard);
            let may = stage.is_some_and(|stage| match stage.take {
                true => mine || until <= now,
                false => mine && fence == stage.fence.0 && until > 0,
            });
            if may {
                ours.insert(shard);
            }
        }
        self.stages.retain(|stage| {
            let is_ours = ours.contains(&stage.shard);
            if !is_ours {
                base.holding().lose(stage.shard);
            }
            is_ours
        });
        self.take(base, conn).await
    }

    /// Takes leases. What their last owners had in flight, even if that was us, is unexplained.
    async fn take(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let taken = self.stages.iter().filter(|stage| stage.take);
        let shards: Vec<i16> = taken.map(|stage| number(stage.shard)).collect();
        if shards.is_empty() {
            return Ok(());
        }
        let query = base.sql.lapse.query().bind(&shards).bind(self.now.0);
        query.execute(&mut *conn).await?;
        let until = self.now + self.want.lease;
        let query = base.sql.take.query().bind(&shards).bind(&base.owner).bind(until.0);
        for row in query.fetch_all(&mut *conn).await? {
            let (shard, fence) = (rows::shard(&row, 0)?, Fence(row.try_get(1)?));
            base.holding().take(shard, fence);
            let stage = self.stages.iter_mut().find(|stage| stage.shard == shard);
            stage.expect("only what was named is taken").fence = fence;
        }
        Ok(())
    }
}

#[async_trait]
impl Work for Claiming {
    type Out = Vec<Claim>;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        if self.writes { Scope::Transaction } else { Scope::Statement }
    }

    fn repeats(&self) -> bool {
        false
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        if self.writes {
            self.open(base, conn).await?;
        }
        let mut pick = Pick::new(self.lane, self.want, self.now, &self.stages);
        pick.inform(base, conn).await?;
        base.holding().desks[self.lane].open();
        pick.later(base, conn).await?;
        pick.hot(base, conn).await?;
        pick.bury(base, conn).await?;
        let all_seen = pick.all_seen;
        let claims = pick.renew(base, conn).await?;
        let seen = Seen { now: self.now, newest: self.newest };
        base.holding().desks[self.lane].seen = all_seen.then_some(seen);
        Ok(claims)
    }
}
