//! A claim: take or keep the lease, pick rows under it, and name them in the lease row.

use std::collections::BTreeSet;

use async_trait::async_trait;
use event::{Claim, Fence, Millis, Want};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::{LEASE, SHARD, glance};
use super::pick::{Pick, Shelves};
use super::writer::Work;
use crate::own::{Held, May, Seen, batches};

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
        let cursor = base.holding().desks[self.lane].cursor(SHARD);
        let look = glance(base, conn, cursor, Millis(i64::MIN)).await?;
        let (until, may) = {
            let holding = base.holding();
            (look.now + self.want.lease, holding.may(self.lane, &look, self.want.lease))
        };
        let fence = match may {
            May::Nothing | May::Idle => return Ok(Vec::new()),
            May::Renew => {
                renew(base, conn, look.mark, until, None).await?;
                return Ok(Vec::new());
            }
            May::Keep => look.mark.next(),
            May::Take => self.take(base, conn, look.now, until).await?,
        };
        let lapsed = self.lapse(base, conn, look.now).await?;
        let mut pick = Pick::new(self.lane, self.want, &look, fence);
        pick.inform(base, conn).await?;
        base.holding().desks[self.lane].part(SHARD).hand.open(fence, until);
        let later = may == May::Take || look.is_due() || lapsed;
        let hot = may == May::Take || look.ahead;
        pick.take(base, conn, Shelves { hot, later }).await?;
        let out =
            (pick.named || lapsed).then(|| json(&base.holding().out(SHARD, &BTreeSet::new())));
        renew(base, conn, fence, until, out).await?;
        base.holding().keep(SHARD, Held { mark: fence, newest: fence });
        let seen = Seen { now: look.now, newest: look.newest };
        base.holding().desks[self.lane].seen = pick.all_seen.then_some(seen);
        Ok(pick.claims)
    }

    fn undone(&mut self, base: &Base) {
        base.holding().lose(SHARD);
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
            base.sql.out.query().bind(LEASE).fetch_one(&mut *conn).await?.try_get(0)?;
        lapse(base, conn, &out, now).await?;
        base.sql.lapse_later.query().bind(now.0).execute(&mut *conn).await?;
        let query = base.sql.take.query().bind(LEASE).bind(&base.owner).bind(until.0);
        let fence = Fence(query.fetch_one(conn).await?.try_get(0)?);
        base.holding().take(SHARD, fence);
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
        let lapsed = base.holding().desks[self.lane].lapse(SHARD, now);
        if lapsed.is_empty() {
            return Ok(false);
        }
        lapse(base, conn, &json(&batches(lapsed.into_iter())), now).await?;
        Ok(true)
    }
}

/// Moves hot rows that nobody settled in time to the later table, where they are due.
async fn lapse(
    base: &Base,
    conn: &mut SqliteConnection,
    out: &str,
    now: Millis,
) -> Result<(), Fault> {
    let query = base.sql.lapse_copy.query().bind(out).bind(LEASE).bind(now.0);
    query.execute(&mut *conn).await?;
    base.sql.lapse_drop.query().bind(out).execute(conn).await?;
    Ok(())
}

/// Names hot rows as the lease row has them.
pub(super) fn json(out: &[(Millis, Vec<i64>)]) -> String {
    serde_json::to_string(out).expect("numbers are always JSON")
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
    let query = base.sql.renew.query().bind(LEASE).bind(&base.owner).bind(fence.0);
    query.bind(until.0).bind(out).execute(conn).await?;
    Ok(())
}
