//! Claiming later rows that are due: the attempt is counted here, and the lease is their due time.

use std::collections::HashMap;

use event::{Address, Claim, Event, Fence, Outcome, Sequence, Shelf};

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
        let desk = &mut holding.desks[self.lane];
        for due in picked {
            let claimed = claimed.remove(&due.number);
            let claimed = claimed.expect("nobody else moves rows of an open shard");
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
