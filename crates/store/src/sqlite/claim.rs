//! A claim: take or keep the lease, pick rows under it, and name them in the lease row.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use event::{Claim, Fence, Millis, Want};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::{Glance, SHARD};
use super::holding::{May, Seen};
use super::pick::Pick;
use super::writer::Work;

/// One lane's claim.
pub(super) struct Claiming {
    pub(super) lane: usize,
    pub(super) want: Want,
}

#[async_trait]
impl Work for Claiming {
    type Out = Vec<Claim>;
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Self::Out, Fault> {
        let cursor = base.holding().desks[self.lane].hand.cursor();
        let glance = Glance::read(base, conn, cursor, Millis(i64::MIN)).await?;
        let may = base.holding().may(&glance, self.want.lease);
        let fence = match may {
            May::Nothing | May::Idle => return Ok(Vec::new()),
            May::Renew => {
                renew(base, conn, &glance, self.want.lease, None).await?;
                return Ok(Vec::new());
            }
            May::Keep => glance.fence,
            May::Take => self.take(base, conn, &glance).await?,
        };
        let mut pick = Pick::new(self.lane, self.want, glance.now, fence);
        pick.inform(base, conn).await?;
        base.holding().desks[self.lane].hand.open();
        let later = may == May::Take || glance.due.is_some_and(|due| due <= glance.now);
        if later {
            pick.later(base, conn).await?;
        }
        if !pick.closed && (may == May::Take || glance.ahead) {
            pick.hot(base, conn).await?;
        }
        pick.bury(base, conn).await?;
        let out = pick.named.then(|| base.holding().out(&BTreeSet::new()));
        renew(base, conn, &Glance { fence, ..glance.clone() }, self.want.lease, out).await?;
        let seen = Seen { now: glance.now, newest: glance.newest };
        base.holding().desks[self.lane].seen = pick.all_seen.then_some(seen);
        Ok(pick.claims)
    }

    fn undone(&mut self, base: &Base) {
        base.holding().lose();
    }
}

impl Claiming {
    /// Takes the lease. What its last owner had in flight, even if that was us, is unexplained.
    async fn take(
        &self,
        base: &Base,
        conn: &mut SqliteConnection,
        glance: &Glance,
    ) -> Result<Fence, Fault> {
        let now = glance.now.0;
        base.sql.lapse_copy.query().bind(SHARD).bind(now).execute(&mut *conn).await?;
        base.sql.lapse_drop.query().bind(SHARD).execute(&mut *conn).await?;
        let until = glance.now + self.want.lease;
        let query = base.sql.take.query().bind(SHARD).bind(&base.owner).bind(until.0);
        let fence = Fence(query.fetch_one(&mut *conn).await?.try_get(0)?);
        base.holding().take(fence);
        Ok(fence)
    }
}

/// Renews the lease, and says which hot rows are in flight if that has changed.
pub(super) async fn renew(
    base: &Base,
    conn: &mut SqliteConnection,
    glance: &Glance,
    lease: Duration,
    out: Option<String>,
) -> Result<(), Fault> {
    let until = glance.now + lease;
    let query = base.sql.renew.query().bind(SHARD).bind(&base.owner).bind(glance.fence.0);
    query.bind(until.0).bind(out).execute(conn).await?;
    Ok(())
}
