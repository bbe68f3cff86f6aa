//! Giving back: what one lane has in flight, and the leases under which no other lane is at work.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use event::{Fence, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::number;
use super::pick::Flight;
use super::rows;
use super::work::{Scope, Work};

/// Puts what a lane has in flight back, and hands over what it leases.
pub(super) async fn release(base: &Base, lane: usize) -> Result<(), StoreError> {
    let _turn = base.turn.lock().await;
    let held: BTreeMap<u16, Fence> = {
        let holding = base.holding();
        let shards = holding.shards().into_iter();
        shards.filter_map(|shard| Some((shard, holding.held(shard)?))).collect()
    };
    if held.is_empty() {
        return Ok(());
    }
    let mut releasing = Releasing { lane, held };
    let released = base.work(&mut releasing).await;
    let mut holding = base.holding();
    match released {
        Ok(quiet) => {
            for shard in releasing.held.into_keys() {
                if quiet.contains(&shard) {
                    holding.lose(shard);
                } else {
                    holding.desks[lane].clear(shard);
                }
            }
            Ok(())
        }
        Err(error) => {
            holding.lose_all();
            Err(error)
        }
    }
}

struct Releasing {
    lane: usize,
    held: BTreeMap<u16, Fence>,
}

#[async_trait]
impl Work for Releasing {
    type Out = BTreeSet<u16>;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    /// Returns the shards that are no longer ours.
    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        let shards: Vec<i16> = self.held.keys().map(|shard| number(*shard)).collect();
        let query = base.sql.lock.query().bind(base.now()).bind(shards);
        let (mut gone, mut now) = (BTreeSet::new(), 0i64);
        for row in query.fetch_all(&mut *conn).await? {
            let shard = rows::shard(&row, 0)?;
            let (owner, fence): (&str, i64) = (row.try_get(1)?, row.try_get(2)?);
            now = row.try_get(4)?;
            if owner != base.owner || self.held.get(&shard) != Some(&Fence(fence)) {
                gone.insert(shard);
            }
        }
        let ours: Vec<u16> =
            self.held.keys().filter(|shard| !gone.contains(shard)).copied().collect();
        let (mut later, mut less, mut busy) = (Vec::new(), BTreeMap::new(), Vec::new());
        {
            let holding = base.holding();
            let desk = &holding.desks[self.lane];
            for shard in ours {
                later.extend(desk.later_out(shard));
                less.insert(shard, desk.hot_out(shard));
                if holding.is_quiet(shard, Some(self.lane)) {
                    gone.insert(shard);
                } else {
                    busy.push(shard);
                }
            }
        }
        let due = vec![now; later.len()];
        base.sql.release_later.query().bind(later).bind(due).execute(&mut *conn).await?;
        self.hand_over(base, conn, &gone).await?;
        self.unname(base, conn, &busy, &less).await?;
        if busy.is_empty() {
            base.sql.depart.query().bind(&base.owner).execute(conn).await?;
        }
        Ok(gone)
    }
}

impl Releasing {
    /// Hands quiet shards over to nobody. Those that are another's already do not change.
    async fn hand_over(
        &self,
        base: &Base,
        conn: &mut PgConnection,
        quiet: &BTreeSet<u16>,
    ) -> Result<(), Fault> {
        let shards: Vec<i16> = quiet.iter().map(|shard| number(*shard)).collect();
        let fences: Vec<i64> = quiet.iter().map(|shard| self.held[shard].0).collect();
        let heirs: Vec<Option<String>> = vec![None; shards.len()];
        let query = base.sql.hand_over.query().bind(shards).bind(fences).bind(&base.owner);
        query.bind(heirs).bind(0i64).execute(conn).await?;
        Ok(())
    }

    /// Takes the lane's rows out of the lease rows of shards in which other lanes are at work.
    async fn unname(
        &self,
        base: &Base,
        conn: &mut PgConnection,
        busy: &[u16],
        less: &BTreeMap<u16, BTreeSet<i64>>,
    ) -> Result<(), Fault> {
        if busy.is_empty() {
            return Ok(());
        }
        let flight = Flight::of(base, busy.iter().copied(), less);
        let shards: Vec<i16> = busy.iter().map(|shard| number(*shard)).collect();
        let fences: Vec<i64> = busy.iter().map(|shard| self.held[shard].0).collect();
        let (none, all) = (vec![0i64; busy.len()], vec![true; busy.len()]);
        let query = base.sql.settle.query().bind(base.now()).bind(&base.owner);
        let query = query.bind(shards).bind(fences).bind(none).bind(all);
        let query = query.bind(flight.shards).bind(flight.seqs).bind(flight.untils);
        query.execute(conn).await?;
        Ok(())
    }
}
