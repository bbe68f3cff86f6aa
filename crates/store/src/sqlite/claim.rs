//! A claim: take or keep the lease, pick rows under it, and name them in the lease row.

use std::collections::BTreeSet;

use async_trait::async_trait;
use event::{Claim, Fence, Millis, Want};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::{Glance, SHARD};
use super::holding::{May, Seen};
use super::pick::{Pick, Shelves};
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
        let (until, may) = {
            let holding = base.holding();
            (glance.now + self.want.lease, holding.may(self.lane, &glance, self.want.lease))
        };
        let fence = match may {
            May::Nothing | May::Idle => return Ok(Vec::new()),
            May::Renew => {
                renew(base, conn, glance.fence, until, None).await?;
                return Ok(Vec::new());
            }
            May::Keep => glance.fence.next(),
            May::Take => self.take(base, conn, glance.now, until).await?,
        };
        let lapsed = self.lapse(base, conn, glance.now).await?;
        let mut pick = Pick::new(self.lane, self.want, &glance, fence);
        pick.inform(base, conn).await?;
        base.holding().desks[self.lane].hand.open(fence, until);
        let due = glance.due.is_some_and(|due| due <= glance.now);
        let (hot, later) = (may == May::Take || glance.ahead, may == May::Take || due || lapsed);
        pick.take(base, conn, Shelves { hot, later }).await?;
        let out = (pick.named || lapsed).then(|| base.holding().out(&BTreeSet::new()));
        renew(base, conn, fence, until, out).await?;
        base.holding().keep(fence);
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
        now: Millis,
        until: Millis,
    ) -> Result<Fence, Fault> {
        let out: String =
            base.sql.out.query().bind(SHARD).fetch_one(&mut *conn).await?.try_get(0)?;
        lapse(base, conn, &out, now).await?;
        base.sql.lapse_later.query().bind(now.0).execute(&mut *conn).await?;
        let query = base.sql.take.query().bind(SHARD).bind(&base.owner).bind(until.0);
        let fence = Fence(query.fetch_one(conn).await?.try_get(0)?);
        base.holding().take(fence);
        Ok(fence)
    }

    /// Sets down what this lane's claims had in flight that have outlived their leases. Returns
    /// whether there was any.
    async fn lapse(
        &self,
        base: &Base,
        conn: &mut SqliteConnection,
        now: Millis,
    ) -> Result<bool, Fault> {
        let lapsed = base.holding().desks[self.lane].lapse(now);
        match &lapsed {
            Some(out) => lapse(base, conn, out, now).await.map(|()| true),
            None => Ok(false),
        }
    }
}

/// Moves hot rows that nobody settled in time to the later table, where they are due.
async fn lapse(
    base: &Base,
    conn: &mut SqliteConnection,
    out: &str,
    now: Millis,
) -> Result<(), Fault> {
    let query = base.sql.lapse_copy.query().bind(out).bind(SHARD).bind(now.0);
    query.execute(&mut *conn).await?;
    base.sql.lapse_drop.query().bind(out).execute(conn).await?;
    Ok(())
}

/// Renews the lease under the newest claim's fence, and says which hot rows are in flight if that
/// has changed.
pub(super) async fn renew(
    base: &Base,
    conn: &mut SqliteConnection,
    fence: Fence,
    until: Millis,
    out: Option<String>,
) -> Result<(), Fault> {
    let query = base.sql.renew.query().bind(SHARD).bind(&base.owner).bind(fence.0);
    query.bind(until.0).bind(out).execute(conn).await?;
    Ok(())
}
