//! Settling under the fence of each row: what was claimed again since is stale, and unchanged.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{EventId, Fence, Millis, Outcome, Settled, Settlement, StoreError};

use super::super::base::Base;
use super::super::dialect::Dialect;
use super::super::fault::Fault;
use super::super::moves::Moving;
use super::super::work::{Commit, Scope, Work};
use super::lane::Lane;
use crate::compete::Out;

/// Writes outcomes down.
pub(super) async fn settle<D: Dialect>(
    lane: &Lane<D>,
    ends: Vec<Settlement>,
) -> Result<Settled, StoreError> {
    let mut named = HashSet::new();
    let rows = {
        let flight = lane.flight();
        let out = |end: &Settlement| {
            let out = flight.of(end).filter(|_| named.insert(end.address.number));
            Some((end.clone(), out?.clone()))
        };
        ends.iter().map(out).collect::<Vec<_>>()
    };
    let fresh: Vec<bool> = rows.iter().map(Option::is_some).collect();
    let mut settling = Settling { rows: rows.into_iter().flatten().collect() };
    let done = match settling.rows.is_empty() {
        true => HashSet::new(),
        false => lane.base.work(&mut settling).await?,
    };
    let mut settled = Settled::default();
    for (end, fresh) in ends.iter().zip(fresh) {
        if fresh && done.contains(&end.address.number) {
            settled.settled += 1;
        } else {
            settled.stale.push(end.id);
        }
        if fresh {
            lane.flight().end(end);
        }
    }
    Ok(settled)
}

/// Puts everything that a lane has in flight back, as if it had not been claimed. Another lane of
/// the relay that goes on says again that it is there.
pub(super) async fn release<D: Dialect>(lane: &Lane<D>) -> Result<(), StoreError> {
    let _turn = lane.turn.lock().await;
    let out = lane.flight().drain().into_iter();
    let back: Vec<_> = out.map(|(number, out)| (number, out.fence, out.id)).collect();
    let there = lane.base.sharing().depart();
    match there || !back.is_empty() {
        true => lane.base.work(&mut Releasing { back }).await,
        false => Ok(()),
    }
}

struct Releasing {
    back: Vec<(i64, Fence, EventId)>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Releasing {
    type Out = ();
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        if !self.back.is_empty() {
            let still = base.db.still(conn, &self.back).await?;
            let now = base.db.clock(conn, base.now()).await?;
            let rows: Vec<(i64, Millis)> = still.into_iter().map(|number| (number, now)).collect();
            base.db.release(conn, &rows).await?;
        }
        base.db.depart(conn, &base.owner).await
    }
}

/// Outcomes of rows in flight.
struct Settling {
    rows: Vec<(Settlement, Out)>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Settling {
    type Out = HashSet<i64>;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    /// Returns the rows that were settled.
    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let mut named: Vec<(i64, Fence, EventId)> =
            self.rows.iter().map(|(end, _)| (end.address.number, end.fence, end.id)).collect();
        named.sort_unstable();
        let still = base.db.still(conn, &named).await?;
        let mut moving = Moving::new(base.db.clock(conn, base.now()).await?);
        let mut sent = 0;
        for (end, out) in &self.rows {
            if still.contains(&end.address.number) {
                moving.add(end, out.attempts, &out.trail);
                sent += usize::from(matches!(end.outcome, Outcome::Done(_)));
            }
        }
        moving.write(base, conn).await?;
        if sent > 0 {
            // The tally that counts is opened last, and for the shortest time.
            let shard = base.counter % base.shards(conn).await?;
            base.db.count_sent(conn, shard, sent).await?;
        }
        Ok(still)
    }
}
