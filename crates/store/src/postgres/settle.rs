//! Settling: the lease first, then each row to where its outcome takes it, by primary key.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use async_trait::async_trait;
use event::{Address, Fence, Millis, Moment, Outcome, Settled, Settlement, Shelf, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::number;
use super::moves::Moves;
use super::rows;
use super::work::{Scope, Work};

/// The rows whose outcomes are being written down: no outcome is written twice.
pub(super) type Ending = HashSet<Address>;

/// Settles for one lane.
pub(super) async fn settle(
    base: &Base,
    lane: usize,
    ends: Vec<Settlement>,
) -> Result<Settled, StoreError> {
    let _settling = base.settling.read().await;
    let mut settling = Settling::new(base, lane, ends);
    let kept = match settling.fresh.contains(&true) {
        true => base.work(&mut settling).await,
        false => Ok(Kept::default()),
    };
    let _turn = base.turn.lock().await;
    settling.apply(base, kept)
}

/// The shards that were still ours, and the clock.
#[derive(Default)]
struct Kept {
    shards: BTreeSet<u16>,
    now: Millis,
}

struct Settling {
    lane: usize,
    ends: Vec<Settlement>,
    /// Which of them are in flight, each under the fence that it was given.
    fresh: Vec<bool>,
    /// The shards of those, with what their lease rows must show.
    marks: BTreeMap<u16, Fence>,
    /// What each of them had behind it.
    behind: Vec<(u32, Vec<Moment>)>,
    doubted: bool,
}

impl Settling {
    fn new(base: &Base, lane: usize, ends: Vec<Settlement>) -> Settling {
        let holding = base.holding();
        let mut ending = base.ending();
        let (mut marks, mut behind) = (BTreeMap::new(), Vec::with_capacity(ends.len()));
        let fresh = |end: &Settlement| {
            let held = holding.held(end.address.shard);
            let kept = holding.desks[lane].in_flight(end.address, end.fence);
            let fresh = held.filter(|_| kept.is_some() && ending.insert(end.address));
            behind
                .push(kept.map(|(attempts, trail)| (attempts, trail.to_vec())).unwrap_or_default());
            marks.extend(fresh.map(|held| (end.address.shard, held.mark)));
            fresh.is_some()
        };
        let fresh = ends.iter().map(fresh).collect();
        Settling { lane, ends, fresh, marks, behind, doubted: false }
    }

    fn fresh(&self) -> impl Iterator<Item = (&Settlement, &(u32, Vec<Moment>))> {
        let ends = self.ends.iter().zip(&self.behind).zip(&self.fresh);
        ends.filter(|(_, fresh)| **fresh).map(|(end, _)| end)
    }

    /// Tells whether all of it was published, and none of it ever refused.
    fn is_plain(&self) -> bool {
        self.fresh().all(|(end, _)| {
            matches!(end.outcome, Outcome::Done(_)) && end.address.shelf == Shelf::Hot
        })
    }

    /// Returns shards, what their lease rows must show, and how many were published.
    fn leases(&self) -> (Vec<i16>, Vec<i64>, Vec<i64>) {
        let shards = self.marks.keys().map(|shard| number(*shard)).collect();
        let marks = self.marks.values().map(|mark| mark.0).collect();
        let mut done: BTreeMap<u16, i64> = self.marks.keys().map(|shard| (*shard, 0)).collect();
        for (end, _) in self.fresh().filter(|(end, _)| matches!(end.outcome, Outcome::Done(_))) {
            *done.entry(end.address.shard).or_default() += 1;
        }
        (shards, marks, done.into_values().collect())
    }

    /// Settles what was published at one stroke.
    async fn stroke(&self, base: &Base, conn: &mut PgConnection) -> Result<Kept, Fault> {
        let (shards, marks, done) = self.leases();
        let (mut at, mut seqs, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (end, _) in self.fresh() {
            at.push(number(end.address.shard));
            seqs.push(end.address.number);
            ids.push(match &end.outcome {
                Outcome::Done(receipt) => receipt.broker_id.clone(),
                _ => None,
            });
        }
        let sql = if base.history { &base.sql.settle_sent } else { &base.sql.settle_gone };
        let query = sql.query().bind(base.now()).bind(&base.owner).bind(shards).bind(marks);
        let query = query.bind(done).bind(at).bind(seqs);
        let query = if base.history { query.bind(ids) } else { query };
        kept(&query.fetch_all(conn).await?)
    }

    /// Asks the lease rows which shards nobody has taken since.
    async fn open(&self, base: &Base, conn: &mut PgConnection) -> Result<Kept, Fault> {
        let (shards, marks, done) = self.leases();
        // Rows that leave the hot table need not be unnamed; those that stay must be.
        let back = self.fresh().filter(|(end, _)| {
            matches!(end.outcome, Outcome::Release { .. }) && end.address.shelf == Shelf::Hot
        });
        let back: Vec<i64> = back.map(|(end, _)| end.address.number).collect();
        let query = base.sql.settle.query().bind(base.now()).bind(&base.owner);
        let query = query.bind(shards).bind(marks).bind(done).bind(back);
        kept(&query.fetch_all(conn).await?)
    }

    /// Takes in what was settled.
    fn apply(&self, base: &Base, kept: Result<Kept, StoreError>) -> Result<Settled, StoreError> {
        let mut holding = base.holding();
        for (end, _) in self.fresh() {
            base.ending().remove(&end.address);
        }
        let lost: Vec<u16> = match &kept {
            Ok(kept) => {
                self.marks.keys().filter(|shard| !kept.shards.contains(shard)).copied().collect()
            }
            Err(_) if self.doubted => self.marks.keys().copied().collect(),
            Err(_) => Vec::new(),
        };
        let ours = |holding: &crate::own::Holding, shard: &u16| {
            holding.held(*shard).map(|held| held.mark) == self.marks.get(shard).copied()
        };
        for shard in lost {
            if ours(&holding, &shard) {
                holding.lose(shard);
            }
        }
        let Kept { shards, now } = kept?;
        let mut stale = Vec::new();
        for (end, fresh) in self.ends.iter().zip(&self.fresh) {
            let shard = end.address.shard;
            if !fresh || !shards.contains(&shard) {
                stale.push(end.id);
            } else if ours(&holding, &shard) {
                holding.desks[self.lane].settle(end.address, end.fence, &end.outcome, now);
            }
        }
        Ok(Settled { settled: self.ends.len() - stale.len(), stale })
    }
}

fn kept(answer: &[sqlx::postgres::PgRow]) -> Result<Kept, Fault> {
    let mut kept = Kept::default();
    for row in answer {
        kept.shards.insert(rows::shard(row, 0)?);
        kept.now = Millis(row.try_get(1)?);
    }
    Ok(kept)
}

#[async_trait]
impl Work for Settling {
    type Out = Kept;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        if self.is_plain() { Scope::Statement } else { Scope::Transaction }
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Kept, Fault> {
        if self.is_plain() {
            return self.stroke(base, conn).await;
        }
        let kept = self.open(base, conn).await?;
        let mut moves = Moves::new(kept.now);
        for (end, (attempts, trail)) in self.fresh() {
            if kept.shards.contains(&end.address.shard) {
                moves.add(end, *attempts, trail);
            }
        }
        moves.write(base, conn).await?;
        Ok(kept)
    }

    fn doubted(&mut self) {
        self.doubted = true;
    }
}
