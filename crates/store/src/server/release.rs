//! Giving back: what one lane has in flight, and the leases under which no other lane is at work.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use event::{Fence, Millis, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::lease::Grant;
use super::settle::{Owned, take_in};
use super::together::take_turn;
use super::work::{Commit, Scope, Terms, Work};

/// Puts what a lane has in flight back, and hands over what it leases.
pub(super) async fn release<D: Dialect>(base: &Base<D>, lane: usize) -> Result<(), StoreError> {
    // What is being settled ends first: nothing is both settled and put back.
    let _settling = base.settling.write().await;
    let turn = take_turn(&base.turn).await;
    take_in(base, &turn);
    let (era, held): (u64, BTreeMap<u16, Fence>) = {
        let holding = base.holding();
        let shards = holding.shards().into_iter();
        let held = shards.filter_map(|shard| Some((shard, holding.held(shard)?.mark)));
        (holding.era, held.collect())
    };
    let there = base.sharing().depart();
    if held.is_empty() && !there {
        return Ok(());
    }
    let mut releasing = Releasing { era, lane, held };
    let released = base.work(&mut releasing).await;
    let mut holding = base.holding();
    for shard in releasing.held.into_keys() {
        // Whether or not it was written down, other lanes keep what they have in flight.
        let busy = match &released {
            Ok(busy) => busy.contains(&shard),
            Err(_) => !holding.is_quiet(shard, Some(lane)),
        };
        match busy {
            true => holding.desks[lane].clear(shard),
            false => holding.lose(shard),
        }
    }
    released.map(drop)
}

struct Releasing {
    era: u64,
    lane: usize,
    /// What is held, with what the lease rows must show.
    held: BTreeMap<u16, Fence>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Releasing {
    type Out = BTreeSet<u16>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction).of(self.era)
    }

    /// Returns the shards in which other lanes are at work.
    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let shards: Vec<u16> = self.held.keys().copied().collect();
        let (mut ours, mut now) = (Vec::new(), Millis(0));
        for row in base.db.open_leases(conn, base.now(), &shards, &[]).await? {
            now = row.now;
            if row.owner == base.owner && self.held.get(&row.shard) == Some(&row.mark) {
                ours.push(row.shard);
            }
        }
        let (mut later, mut hot) = (Vec::new(), Vec::new());
        let (busy, quiet): (BTreeSet<u16>, BTreeSet<u16>) = {
            let holding = base.holding();
            let desk = &holding.desks[self.lane];
            for shard in &ours {
                later.extend(desk.later_out(*shard));
                hot.extend(desk.hot_out(*shard));
            }
            ours.into_iter().partition(|shard| !holding.is_quiet(*shard, Some(self.lane)))
        };
        if !later.is_empty() {
            let rows: Vec<(i64, Millis)> = later.into_iter().map(|number| (number, now)).collect();
            base.db.release(conn, &rows).await?;
        }
        if !quiet.is_empty() {
            let grant = |shard: &u16| Grant { shard: *shard, mark: self.held[shard], heir: None };
            let grants: Vec<Grant> = quiet.iter().map(grant).collect();
            base.db.hand_over(conn, &base.owner, Millis(0), &grants).await?;
        }
        if busy.is_empty() {
            base.db.depart(conn, &base.owner).await?;
        } else {
            // The lane's rows leave the lease rows of shards in which other lanes are at work.
            let owned = |shard: &u16| Owned { shard: *shard, mark: self.held[shard], done: 0 };
            let owned: Vec<Owned> = busy.iter().map(owned).collect();
            base.db.open(conn, base.now(), &base.owner, &owned, &hot).await?;
        }
        Ok(busy)
    }
}
