//! Setting down what claims of a lane had in flight that have outlived their leases. Nobody waits
//! for whoever has one of the leases open: its shard is left for the next claim.
//!
//! The leases are enough. Nobody takes a shard whose lease is open, and its tally is opened by
//! settlements of other rows, with which this has nothing to do: an outcome of a row that is being
//! set down waits until that is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use event::{Address, Code, Fence, Millis, Shelf, StoreError};
use tokio::sync::MutexGuard;

use super::base::{Base, another_server};
use super::dialect::Dialect;
use super::fault::Fault;
use super::shut::Parts;
use super::work::{Commit, Scope, Terms, Work};

/// What came of it, by shard.
#[derive(Default)]
pub(super) struct SetDown {
    /// In which shards it was done.
    pub(super) done: BTreeSet<u16>,
    /// Whose leases another has open.
    pub(super) shut: BTreeSet<u16>,
}

/// Sets them down in some shards, each with what its lease must show. Rows whose outcomes are being
/// written down at this moment are spared, and their shards with them.
pub(super) async fn set_down<D: Dialect>(
    base: &Base<D>,
    (era, lane): (u64, usize),
    now: Millis,
    lease: Duration,
    held: &BTreeMap<u16, Fence>,
) -> Result<SetDown, StoreError> {
    let mut parts = Parts::of(held.keys().copied().collect());
    let mut done = BTreeSet::new();
    while let Some(part) = parts.part() {
        let held = part.iter().map(|shard| (*shard, held[shard])).collect();
        let open = try_set_down(base, (era, lane), now, held, &mut done).await?;
        parts.tried(part, open.as_ref());
    }
    Ok(SetDown { done, shut: base.sharing().shut.learn(parts, lease) })
}

/// Sets them down in some shards. Returns which could be looked at or were spared, unless the
/// server refuses all because another has one of their leases open.
async fn try_set_down<D: Dialect>(
    base: &Base<D>,
    (era, lane): (u64, usize),
    now: Millis,
    mut held: BTreeMap<u16, Fence>,
    done: &mut BTreeSet<u16>,
) -> Result<Option<BTreeSet<u16>>, StoreError> {
    let mut seen: BTreeSet<u16> = held.keys().copied().collect();
    let rows = Outlived::of(base, lane, now, &mut held).await;
    seen.retain(|shard| !held.contains_key(shard));
    if held.is_empty() {
        return Ok(Some(seen));
    }
    let mut lapsing = Lapsing { era, now, held, hot: rows.hot(), doubted: false };
    let lapsed = base.work(&mut lapsing).await;
    let mut holding = base.holding();
    if holding.era != era {
        return Err(another_server());
    }
    match lapsed {
        Ok(lapsed) => {
            for (shard, is_ours) in lapsed {
                seen.insert(shard);
                match is_ours {
                    true => {
                        holding.desks[lane].lapse(shard, now);
                        done.insert(shard);
                    }
                    false => holding.lose(shard),
                }
            }
            Ok(Some(seen))
        }
        Err(error) if lapsing.doubted => {
            lapsing.held.keys().for_each(|shard| holding.lose(*shard));
            Err(error)
        }
        Err(error) if error.cause().code == Code::StoreBusy => Ok(None),
        Err(error) => Err(error),
    }
}

/// Rows that are being set down. Until this is dropped, nobody writes an outcome of theirs down.
struct Outlived<'a, D: Dialect> {
    base: &'a Base<D>,
    rows: Vec<Address>,
    _turn: MutexGuard<'a, ()>,
}

impl<'a, D: Dialect> Outlived<'a, D> {
    /// Finds them. Shards that have none, or are spared, are taken from those that are `held`.
    async fn of(
        base: &'a Base<D>,
        lane: usize,
        now: Millis,
        held: &mut BTreeMap<u16, Fence>,
    ) -> Outlived<'a, D> {
        let _turn = base.setting_down.lock().await;
        let mut rows = Vec::new();
        let (holding, mut ending) = (base.holding(), base.ending());
        held.retain(|shard, _| {
            let outlived = holding.desks[lane].outlived(*shard, now);
            let spared = outlived.iter().any(|address| ending.settled.contains(address));
            let found = !spared && !outlived.is_empty();
            rows.extend(outlived.into_iter().filter(|_| found));
            found
        });
        ending.set_down.extend(rows.iter().copied());
        drop((holding, ending));
        Outlived { base, rows, _turn }
    }

    fn hot(&self) -> Vec<(u16, i64)> {
        let hot = self.rows.iter().filter(|row| row.shelf == Shelf::Hot);
        hot.map(|row| (row.shard, row.number)).collect()
    }
}

impl<D: Dialect> Drop for Outlived<'_, D> {
    fn drop(&mut self) {
        let mut ending = self.base.ending();
        for row in &self.rows {
            ending.set_down.remove(row);
        }
    }
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
    /// The shards whose leases could be opened, and whether they were still ours.
    type Out = BTreeMap<u16, bool>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction).of(self.era).once()
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let shards: Vec<u16> = self.held.keys().copied().collect();
        let leases = base.db.open_leases_now(conn, base.now(), &shards).await?.into_iter();
        let looked = leases.map(|row| {
            let mine = row.owner == base.owner && row.until > Millis(0);
            (row.shard, mine && self.held.get(&row.shard) == Some(&row.mark))
        });
        let looked: BTreeMap<u16, bool> = looked.collect();
        let ours = |(shard, _): &&(u16, i64)| looked.get(shard) == Some(&true);
        lapse(base, conn, self.hot.iter().filter(ours).copied().collect(), self.now).await?;
        Ok(looked)
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
