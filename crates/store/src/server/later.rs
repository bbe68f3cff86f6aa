//! Claiming later rows that are due: the attempt is counted here, and the lease is their due time.

use std::collections::HashMap;

use event::{Address, Cause, Claim, Code, Event, Fence, Outcome, Sequence, Shelf, StoreError};

use super::base::Base;
use super::dialect::{Claimed, Dialect};
use super::due::DueRow;
use super::fault::Fault;
use super::glance::Glance;
use super::pick::Pick;

impl Pick<'_> {
    /// Claims later rows that are due.
    pub(super) async fn later<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
        glance: &Glance<D>,
    ) -> Result<(), Fault> {
        let shards = self.stages.iter().filter(|stage| stage.later).map(|stage| stage.shard);
        let shards: Vec<u16> = shards.collect();
        if shards.is_empty() {
            return Ok(());
        }
        self.stirred.extend(&shards);
        let picked = self.sift(base, conn, &shards, glance).await?;
        if picked.is_empty() {
            return Ok(());
        }
        if self.rivals.is_some() {
            return self.win_later(base, conn, picked).await;
        }
        let fence = |due: &DueRow| (due.number, self.stage(due.shard).held.newest);
        let rows: Vec<(i64, Fence)> = picked.iter().map(fence).collect();
        let claimed = base.db.claim_later(conn, &rows, self.until).await?;
        let mut claimed: HashMap<i64, Claimed> =
            claimed.into_iter().map(|claimed| (claimed.number, claimed)).collect();
        let mut holding = base.holding();
        let changed: Vec<u16> = picked
            .iter()
            .filter_map(|due| (!claimed.contains_key(&due.number)).then_some(due.shard))
            .collect();
        if !changed.is_empty() {
            // What waited behind them is only known by looking anew.
            changed.into_iter().for_each(|shard| holding.lose(shard));
            let detail = "rows of the outbox were changed from outside while they were claimed";
            return Err(StoreError::Down(Cause::new(Code::StoreBusy, detail)).into());
        }
        let desk = &mut holding.desks[self.lane];
        for due in picked {
            let Some(claimed) = claimed.remove(&due.number) else { continue };
            let Claimed { event, attempt, unexplained, trail, .. } = claimed;
            let address = Address { shelf: Shelf::Later, shard: due.shard, number: due.number };
            let fence = self.stage(due.shard).held.newest;
            match event {
                Ok(event) => {
                    let event = Event { sequence: Sequence::of(due.birth), ..event };
                    let due = due.due;
                    let claim = Claim { event, address, fence, due, attempt, unexplained };
                    desk.keep(&claim, trail);
                    self.claims.push(claim);
                }
                Err(cause) => {
                    desk.settle(address, fence, &Outcome::Dead(cause.clone()), self.now);
                    self.bad.push((address, attempt, cause));
                }
            }
        }
        Ok(())
    }
}
