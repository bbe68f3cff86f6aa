//! Giving back: what one lane has in flight, and the leases under which no other lane is at work.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use event::{Fence, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::number;
use super::rows;
use super::work::{Scope, Work};

/// Puts what a lane has in flight back, and hands over what it leases.
pub(super) async fn release(base: &Base, lane: usize) -> Result<(), StoreError> {
    // What is being settled ends first: nothing is both settled and put back.
    let _settling = base.settling.write().await;
    let _turn = base.turn.lock().await;
    let held: BTreeMap<u16, Fence> = {
        let holding = base.holding();
        let shards = holding.shards().into_iter();
        shards.filter_map(|shard| Some((shard, holding.held(shard)?.mark))).collect()
    };
    let there = base.sharing().depart();
    if held.is_empty() && !there {
        return Ok(());
    }
    let mut releasing = Releasing { lane, held };
    let released = base.work(&mut releasing).await;
    let mut holding = base.holding();
    for shard in releasing.held.into_keys() {
        match &released {
            Ok(busy) if busy.contains(&shard) => holding.desks[lane].clear(shard),
            Ok(_) | Err(_) => holding.lose(shard),
        }
    }
    released.map(drop)
}

struct Releasing {
    lane: usize,
    /// What is held, with what the lease rows must show.
    held: BTreeMap<u16, Fence>,
}

#[async_trait]
impl Work for Releasing {
    type Out = BTreeSet<u16>;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    /// Returns the shards in which other lanes are at work.
    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        let shards: Vec<i16> = self.held.keys().map(|shard| number(*shard)).collect();
        let query = base.sql.lock.query().bind(base.now()).bind(shards).bind(Vec::<i16>::new());
        let (mut ours, mut now) = (Vec::new(), 0i64);
        for row in query.fetch_all(&mut *conn).await? {
            let shard = rows::shard(&row, 0)?;
            let (owner, mark): (&str, i64) = (row.try_get(1)?, row.try_get(2)?);
            now = row.try_get(4)?;
            if owner == base.owner && self.held.get(&shard) == Some(&Fence(mark)) {
                ours.push(shard);
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
        let due = vec![now; later.len()];
        base.sql.release_later.query().bind(later).bind(due).execute(&mut *conn).await?;
        self.hand_over(base, conn, &quiet).await?;
        self.unname(base, conn, &busy, hot).await?;
        if busy.is_empty() {
            base.sql.depart.query().bind(&base.owner).execute(conn).await?;
        }
        Ok(busy)
    }
}

impl Releasing {
    fn leases(&self, shards: &BTreeSet<u16>) -> (Vec<i16>, Vec<i64>) {
        shards.iter().map(|shard| (number(*shard), self.held[shard].0)).unzip()
    }

    /// Hands quiet shards over to nobody.
    async fn hand_over(
        &self,
        base: &Base,
        conn: &mut PgConnection,
        quiet: &BTreeSet<u16>,
    ) -> Result<(), Fault> {
        let (shards, marks) = self.leases(quiet);
        let heirs: Vec<Option<String>> = vec![None; shards.len()];
        let query = base.sql.hand_over.query().bind(shards).bind(marks).bind(&base.owner);
        query.bind(heirs).bind(0i64).execute(conn).await?;
        Ok(())
    }

    /// Takes the lane's rows out of the lease rows of shards in which other lanes are at work.
    async fn unname(
        &self,
        base: &Base,
        conn: &mut PgConnection,
        busy: &BTreeSet<u16>,
        hot: Vec<i64>,
    ) -> Result<(), Fault> {
        let (shards, marks) = self.leases(busy);
        let none = vec![0i64; shards.len()];
        let query = base.sql.settle.query().bind(base.now()).bind(&base.owner);
        query.bind(shards).bind(marks).bind(none).bind(hot).execute(conn).await?;
        Ok(())
    }
}
