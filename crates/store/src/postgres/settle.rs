//! Settling: the fence first, then each row to where its outcome takes it, by primary key.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use async_trait::async_trait;
use event::{
    Address, Cause, Fence, Millis, Moment, Outcome, Settled, Settlement, Shelf, StoreError,
};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::number;
use super::pick::Flight;
use super::rows;
use super::work::{Scope, Work};

/// Settles for one lane.
pub(super) async fn settle(
    base: &Base,
    lane: usize,
    ends: Vec<Settlement>,
) -> Result<Settled, StoreError> {
    let mut settling = Settling::new(base, lane, ends);
    let kept = match settling.fresh.contains(&true) {
        true => base.work(&mut settling).await,
        false => Ok(BTreeSet::new()),
    };
    let _turn = base.turn.lock().await;
    settling.apply(base, kept)
}

struct Settling {
    lane: usize,
    ends: Vec<Settlement>,
    /// Which of them are in flight under the fence that is held.
    fresh: Vec<bool>,
    /// The shards of those, with their fences.
    fences: BTreeMap<u16, Fence>,
    /// What each of them had behind it.
    behind: Vec<(u32, Vec<Moment>)>,
    doubted: bool,
}

impl Settling {
    fn new(base: &Base, lane: usize, ends: Vec<Settlement>) -> Settling {
        let holding = base.holding();
        let mut ending = base.ending();
        let (mut fences, mut behind) = (BTreeMap::new(), Vec::with_capacity(ends.len()));
        let fresh = |end: &Settlement| {
            let shard = end.address.shard;
            let kept = holding.desks[lane].in_flight(end.address);
            let fresh = holding.held(shard) == Some(end.fence)
                && kept.is_some()
                && ending.insert(end.address);
            behind
                .push(kept.map(|(attempts, trail)| (attempts, trail.to_vec())).unwrap_or_default());
            if fresh {
                fences.insert(shard, end.fence);
            }
            fresh
        };
        let fresh = ends.iter().map(fresh).collect();
        Settling { lane, ends, fresh, fences, behind, doubted: false }
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

    /// Returns shards, fences, and how many were published.
    fn leases(&self) -> (Vec<i16>, Vec<i64>, Vec<i64>) {
        let shards = self.fences.keys().map(|shard| number(*shard)).collect();
        let fences = self.fences.values().map(|fence| fence.0).collect();
        let done = |shard: &u16| {
            let of = self.fresh().filter(|(end, _)| end.address.shard == *shard);
            of.filter(|(end, _)| matches!(end.outcome, Outcome::Done(_))).count() as i64
        };
        (shards, fences, self.fences.keys().map(done).collect())
    }

    /// Settles what was published at one stroke. Returns the shards that are still ours.
    async fn stroke(&self, base: &Base, conn: &mut PgConnection) -> Result<BTreeSet<u16>, Fault> {
        let (shards, fences, done) = self.leases();
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
        let query = sql.query().bind(base.now()).bind(&base.owner).bind(shards).bind(fences);
        let query = query.bind(done).bind(at).bind(seqs).bind(ids);
        query.fetch_all(conn).await?.iter().map(|row| rows::shard(row, 0)).collect()
    }

    /// Asks the lease rows which fences are still the newest. Returns those shards and the clock.
    async fn open(
        &self,
        base: &Base,
        conn: &mut PgConnection,
    ) -> Result<(BTreeSet<u16>, Millis), Fault> {
        let (shards, fences, done) = self.leases();
        let mut less: BTreeMap<u16, BTreeSet<i64>> = BTreeMap::new();
        let mut changed: BTreeSet<u16> = BTreeSet::new();
        for (end, _) in self.fresh().filter(|(end, _)| end.address.shelf == Shelf::Hot) {
            less.entry(end.address.shard).or_default().insert(end.address.number);
            // Rows that leave the hot table need not be unnamed; those that stay must be.
            if matches!(end.outcome, Outcome::Release { .. }) {
                changed.insert(end.address.shard);
            }
        }
        let flight = Flight::of(base, changed.iter().copied(), &less);
        let changes: Vec<bool> = self.fences.keys().map(|shard| changed.contains(shard)).collect();
        let query = base.sql.settle.query().bind(base.now()).bind(&base.owner);
        let query = query.bind(shards).bind(fences).bind(done).bind(changes);
        let query = query.bind(flight.shards).bind(flight.seqs).bind(flight.untils);
        let (mut kept, mut now) = (BTreeSet::new(), Millis(0));
        for row in query.fetch_all(conn).await? {
            kept.insert(rows::shard(&row, 0)?);
            now = Millis(row.try_get(1)?);
        }
        Ok((kept, now))
    }

    /// Takes in what was settled.
    fn apply(
        &self,
        base: &Base,
        kept: Result<BTreeSet<u16>, StoreError>,
    ) -> Result<Settled, StoreError> {
        let mut holding = base.holding();
        for (end, _) in self.fresh() {
            base.ending().remove(&end.address);
        }
        let ours = |shard: u16| holding.held(shard) == self.fences.get(&shard).copied();
        let lost: Vec<u16> = match &kept {
            Ok(kept) => self.fences.keys().filter(|shard| !kept.contains(shard)).copied().collect(),
            Err(_) if self.doubted => self.fences.keys().copied().collect(),
            Err(_) => Vec::new(),
        };
        let lost: Vec<u16> = lost.into_iter().filter(|shard| ours(*shard)).collect();
        lost.into_iter().for_each(|shard| holding.lose(shard));
        let kept = kept?;
        let mut stale = Vec::new();
        for (end, fresh) in self.ends.iter().zip(&self.fresh) {
            let shard = end.address.shard;
            if !fresh || !kept.contains(&shard) {
                stale.push(end.id);
            } else if holding.held(shard) == Some(end.fence) {
                holding.desks[self.lane].settle(end.address, &end.outcome);
            }
        }
        Ok(Settled { settled: self.ends.len() - stale.len(), stale })
    }
}

#[async_trait]
impl Work for Settling {
    type Out = BTreeSet<u16>;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        if self.is_plain() { Scope::Statement } else { Scope::Transaction }
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        if self.is_plain() {
            return self.stroke(base, conn).await;
        }
        let (kept, now) = self.open(base, conn).await?;
        let mut moves = Moves { now, ..Moves::default() };
        for (end, (attempts, trail)) in self.fresh() {
            if kept.contains(&end.address.shard) {
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

/// Where rows go, by table and outcome.
#[derive(Default)]
struct Moves {
    now: Millis,
    hot: Side,
    later: Side,
}

#[derive(Default)]
struct Side {
    done: Ends<Option<String>>,
    retry: Ends<(i64, i64, String)>,
    release: Ends<i64>,
    dead: Ends<(i32, String)>,
}

/// Rows of one table with one outcome, and what that outcome says of each.
struct Ends<T> {
    shards: Vec<i16>,
    numbers: Vec<i64>,
    said: Vec<T>,
}

impl<T> Default for Ends<T> {
    fn default() -> Ends<T> {
        Ends { shards: Vec::new(), numbers: Vec::new(), said: Vec::new() }
    }
}

impl<T> Ends<T> {
    fn push(&mut self, address: Address, said: T) {
        self.shards.push(number(address.shard));
        self.numbers.push(address.number);
        self.said.push(said);
    }

    fn each<U>(&self, of: impl Fn(&T) -> U) -> Vec<U> {
        self.said.iter().map(of).collect()
    }

    fn is_empty(&self) -> bool {
        self.said.is_empty()
    }
}

impl Moves {
    fn add(&mut self, end: &Settlement, attempts: u32, trail: &[Moment]) {
        let side = match end.address.shelf {
            Shelf::Hot => &mut self.hot,
            Shelf::Later => &mut self.later,
        };
        let longer = |cause: &Cause| {
            let mut trail = trail.to_vec();
            trail.push(Moment { at: self.now, attempt: attempts, cause: cause.clone() });
            Moment::bound(&mut trail);
            serde_json::to_string(&trail).expect("a cause is always JSON")
        };
        match &end.outcome {
            Outcome::Done(receipt) => side.done.push(end.address, receipt.broker_id.clone()),
            Outcome::Retry { after, cause } => {
                let due = (self.now + *after).0;
                side.retry.push(end.address, (end.fence.0, due, longer(cause)));
            }
            Outcome::Release { after } => side.release.push(end.address, (self.now + *after).0),
            Outcome::Dead(cause) => {
                let attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
                side.dead.push(end.address, (attempts, longer(cause)));
            }
        }
    }

    async fn write(self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let now = self.now.0;
        self.hot.write_hot(base, conn, now).await?;
        self.later.write_later(base, conn, now).await
    }
}

impl Side {
    async fn write_hot(self, base: &Base, conn: &mut PgConnection, now: i64) -> Result<(), Fault> {
        let Side { done, retry, dead, .. } = self;
        if !done.is_empty() {
            let sql = if base.history { &base.sql.done_hot } else { &base.sql.drop_hot };
            let query = sql.query().bind(done.shards).bind(done.numbers);
            let query = if base.history { query.bind(done.said).bind(now) } else { query };
            query.execute(&mut *conn).await?;
        }
        if !retry.is_empty() {
            let fences = retry.each(|(fence, ..)| *fence);
            let dues = retry.each(|(_, due, _)| *due);
            let trails = retry.each(|(.., trail)| trail.clone());
            let query = base.sql.retry_hot.query().bind(retry.shards).bind(retry.numbers);
            let query = query.bind(fences).bind(dues).bind(trails).bind(now);
            query.execute(&mut *conn).await?;
        }
        if !dead.is_empty() {
            let attempts = dead.each(|(attempts, _)| *attempts);
            let trails = dead.each(|(_, trail)| trail.clone());
            let query = base.sql.dead_hot.query().bind(dead.shards).bind(dead.numbers);
            query.bind(attempts).bind(trails).bind(now).execute(conn).await?;
        }
        Ok(())
    }

    async fn write_later(
        self,
        base: &Base,
        conn: &mut PgConnection,
        now: i64,
    ) -> Result<(), Fault> {
        let Side { done, retry, release, dead } = self;
        if !done.is_empty() {
            let sql = if base.history { &base.sql.done_later } else { &base.sql.drop_later };
            let query = sql.query().bind(done.numbers);
            let query = if base.history { query.bind(done.said).bind(now) } else { query };
            query.execute(&mut *conn).await?;
        }
        if !retry.is_empty() {
            let dues = retry.each(|(_, due, _)| *due);
            let trails = retry.each(|(.., trail)| trail.clone());
            let query = base.sql.retry_later.query().bind(retry.numbers);
            query.bind(dues).bind(trails).bind(now).execute(&mut *conn).await?;
        }
        if !release.is_empty() {
            let query = base.sql.release_later.query().bind(release.numbers).bind(release.said);
            query.execute(&mut *conn).await?;
        }
        if !dead.is_empty() {
            let attempts = dead.each(|(attempts, _)| *attempts);
            let trails = dead.each(|(_, trail)| trail.clone());
            let query = base.sql.dead_later.query().bind(dead.numbers);
            query.bind(attempts).bind(trails).bind(now).execute(conn).await?;
        }
        Ok(())
    }
}

/// The rows whose outcomes are being written down: no outcome is written twice.
pub(super) type Ending = HashSet<Address>;
