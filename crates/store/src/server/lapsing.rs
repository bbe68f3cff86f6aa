//! Setting down what claims of a lane had in flight that have outlived their leases.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use event::{Address, Fence, Millis, Shelf, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Terms, Work};

/// Sets them down in some shards, each with what its lease must show, and returns those in which it
/// was done. Rows whose outcomes are being written down at this moment are spared, and their shards
/// with them.
pub(super) async fn set_down<D: Dialect>(
    base: &Base<D>,
    (era, lane): (u64, usize),
    now: Millis,
    mut held: BTreeMap<u16, Fence>,
) -> Result<Vec<u16>, StoreError> {
    let mut rows: Vec<Address> = Vec::new();
    {
        let (holding, mut ending) = (base.holding(), base.ending());
        held.retain(|shard, _| {
            let outlived = holding.desks[lane].outlived(*shard, now);
            let spared = outlived.iter().any(|address| ending.contains(address));
            rows.extend(outlived.into_iter().filter(|_| !spared));
            !spared
        });
        // Nobody writes an outcome of theirs down from here on.
        ending.extend(rows.iter().copied());
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let shards: Vec<u16> = held.keys().copied().collect();
    let hot = rows.iter().filter(|row| row.shelf == Shelf::Hot);
    let hot = hot.map(|row| (row.shard, row.number)).collect();
    let mut lapsing = Lapsing { era, now, held, hot, doubted: false };
    let lapsed = base.work(&mut lapsing).await;
    let (mut holding, mut ending) = (base.holding(), base.ending());
    for row in &rows {
        ending.remove(row);
    }
    if holding.era != era {
        return lapsed.map(|_| Vec::new());
    }
    for shard in shards {
        match &lapsed {
            Ok(ours) if ours.contains(&shard) => drop(holding.desks[lane].lapse(shard, now)),
            Err(_) if !lapsing.doubted => {}
            Ok(_) | Err(_) => holding.lose(shard),
        }
    }
    lapsed.map(|ours| ours.into_iter().collect())
}

struct Lapsing {
    era: u64,
    now: Millis,
    /// The shards, with what their lease rows must show.
    held: BTreeMap<u16, Fence>,
    hot: Vec<(u16, i64)>,
    doubted: bool,
}

#[async_trait]
impl<D: Dialect> Work<D> for Lapsing {
    type Out = BTreeSet<u16>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction).of(self.era).once()
    }

    /// Returns the shards that were still ours.
    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let shards: Vec<u16> = self.held.keys().copied().collect();
        let leases = base.db.open_leases(conn, base.now(), &shards, &[]).await?.into_iter();
        let ours = leases.filter(|row| {
            let mine = row.owner == base.owner && row.until > Millis(0);
            mine && self.held.get(&row.shard) == Some(&row.mark)
        });
        let ours: BTreeSet<u16> = ours.map(|row| row.shard).collect();
        let hot = self.hot.iter().filter(|(shard, _)| ours.contains(shard)).copied().collect();
        lapse(base, conn, hot, self.now).await?;
        Ok(ours)
    }

    fn doubted(&mut self) {
        self.doubted = true;
    }
}

/// Moves hot rows that nobody settled in time to the later table, where they are due.
pub(super) async fn lapse<D: Dialect>(
    base: &Base<D>,
    conn: &mut D::Conn,
    rows: Vec<(u16, i64)>,
    now: Millis,
) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    base.db.lapse(conn, &rows, now).await
}
