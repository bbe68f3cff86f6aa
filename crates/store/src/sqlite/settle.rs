//! Settling: the fence first, then each row to where its outcome takes it, by primary key.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use event::{Address, Fence, Millis, Moment, Outcome, Settled, Settlement, Shelf};
use serde::Serialize;
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::claim::json as named;
use super::error::Fault;
use super::glance::{LEASE, SHARD};
use super::statements::Sql;
use super::writer::Work;

/// One lane's settlements.
pub(super) struct Settling {
    pub(super) lane: usize,
    pub(super) ends: Vec<Settlement>,
    applied: bool,
}

impl Settling {
    pub(super) fn new(lane: usize, ends: &[Settlement]) -> Settling {
        Settling { lane, ends: ends.to_vec(), applied: false }
    }
}

#[async_trait]
impl Work for Settling {
    type Out = Settled;
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Settled, Fault> {
        let (fence, fresh) = self.fresh(base);
        let stale: Vec<bool> = fresh.iter().map(|fresh| !fresh).collect();
        if fresh.contains(&true) {
            match self.open(base, conn, fence, &fresh).await? {
                Some(now) => {
                    let moves = self.moves(base, &fresh, now);
                    moves.write(base, conn, fence, now).await?;
                    self.apply(base, &fresh, now);
                }
                None => {
                    base.holding().lose(SHARD);
                    return Ok(self.answer(&vec![true; stale.len()]));
                }
            }
        }
        Ok(self.answer(&stale))
    }

    fn undone(&mut self, base: &Base) {
        if self.applied {
            base.holding().lose(SHARD);
        }
    }
}

impl Settling {
    /// Says which claims are in flight, each under the fence that it was given.
    fn fresh(&self, base: &Base) -> (Fence, Vec<bool>) {
        let holding = base.holding();
        let desk = &holding.desks[self.lane];
        let mut once: HashSet<Address> = HashSet::with_capacity(self.ends.len());
        let fresh = |end: &Settlement| {
            desk.in_flight(end.address, end.fence).is_some() && once.insert(end.address)
        };
        let newest = holding.held(SHARD).map(|held| held.newest);
        (newest.unwrap_or_default(), self.ends.iter().map(fresh).collect())
    }

    /// Asks the lease row whether nobody has taken it since. Returns the clock if so.
    async fn open(
        &self,
        base: &Base,
        conn: &mut SqliteConnection,
        fence: Fence,
        fresh: &[bool],
    ) -> Result<Option<Millis>, Fault> {
        let ends = || self.ends.iter().zip(fresh).filter(|(_, fresh)| **fresh).map(|(end, _)| end);
        let done = ends().filter(|end| matches!(end.outcome, Outcome::Done(_))).count();
        let back = |end: &&Settlement| {
            matches!(end.outcome, Outcome::Release { .. }) && end.address.shelf == Shelf::Hot
        };
        // Rows that leave the hot table need not be unnamed; those that stay must be.
        let out = ends().any(|end| back(&end)).then(|| {
            let hot = ends().filter(|end| end.address.shelf == Shelf::Hot);
            let less: BTreeSet<i64> = hot.map(|end| end.address.number).collect();
            named(&base.holding().out(SHARD, &less))
        });
        let query = base.sql.settle.query().bind(base.now()).bind(LEASE).bind(&base.owner);
        let query = query.bind(fence.0).bind(done as i64).bind(out);
        match query.fetch_optional(conn).await? {
            Some(row) => Ok(Some(Millis(row.try_get(0)?))),
            None => Ok(None),
        }
    }

    fn moves(&self, base: &Base, fresh: &[bool], now: Millis) -> Moves<'_> {
        let holding = base.holding();
        let desk = &holding.desks[self.lane];
        let mut moves = Moves::default();
        for (end, _) in self.ends.iter().zip(fresh).filter(|(_, fresh)| **fresh) {
            let (attempts, trail) =
                desk.in_flight(end.address, end.fence).expect("a fresh settlement is in flight");
            let number = end.address.number;
            let side = match end.address.shelf {
                Shelf::Hot => &mut moves.hot,
                Shelf::Later => &mut moves.later,
            };
            let longer = |cause: &event::Cause| {
                let mut trail = trail.to_vec();
                trail.push(Moment { at: now, attempt: attempts, cause: cause.clone() });
                Moment::bound(&mut trail);
                trail
            };
            match &end.outcome {
                Outcome::Done(receipt) => {
                    side.done.push((number, receipt.broker_id.as_deref()));
                    side.gone.push(number);
                }
                Outcome::Retry { after, cause } => {
                    side.retry.push((number, (now + *after).0, longer(cause)));
                    if end.address.shelf == Shelf::Hot {
                        side.gone.push(number);
                    }
                }
                Outcome::Release { after } => side.release.push((number, (now + *after).0)),
                Outcome::Dead(cause) => {
                    side.dead.push((number, attempts, longer(cause)));
                    side.gone.push(number);
                }
            }
        }
        moves
    }

    fn apply(&mut self, base: &Base, fresh: &[bool], now: Millis) {
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for (end, _) in self.ends.iter().zip(fresh).filter(|(_, fresh)| **fresh) {
            desk.settle(end.address, end.fence, &end.outcome, now);
        }
        self.applied = true;
    }

    fn answer(&self, stale: &[bool]) -> Settled {
        let stale = self.ends.iter().zip(stale).filter(|(_, stale)| **stale);
        let stale: Vec<_> = stale.map(|(end, _)| end.id).collect();
        Settled { settled: self.ends.len() - stale.len(), stale }
    }
}

/// Where the rows of one table go.
#[derive(Default)]
struct Side<'a> {
    done: Vec<(i64, Option<&'a str>)>,
    retry: Vec<(i64, i64, Vec<Moment>)>,
    release: Vec<(i64, i64)>,
    dead: Vec<(i64, u32, Vec<Moment>)>,
    /// What leaves the table.
    gone: Vec<i64>,
}

#[derive(Default)]
struct Moves<'a> {
    hot: Side<'a>,
    later: Side<'a>,
}

impl Moves<'_> {
    async fn write(
        &self,
        base: &Base,
        conn: &mut SqliteConnection,
        fence: Fence,
        now: Millis,
    ) -> Result<(), Fault> {
        let sql = &base.sql;
        if base.history {
            run(&sql.done_hot, conn, &self.hot.done, now).await?;
            run(&sql.done_later, conn, &self.later.done, now).await?;
        }
        if !self.hot.retry.is_empty() {
            let query = sql.retry_hot.query().bind(json(&self.hot.retry));
            query.bind(fence.0).bind(now.0).execute(&mut *conn).await?;
        }
        run(&sql.retry_later, conn, &self.later.retry, now).await?;
        run(&sql.release_later, conn, &self.later.release, now).await?;
        run(&sql.dead_hot, conn, &self.hot.dead, now).await?;
        run(&sql.dead_later, conn, &self.later.dead, now).await?;
        run(&sql.drop_hot, conn, &self.hot.gone, now).await?;
        run(&sql.drop_later, conn, &self.later.gone, now).await
    }
}

/// Runs a statement over a list of rows, unless the list is empty.
pub(super) async fn run<T: Serialize>(
    sql: &Sql,
    conn: &mut SqliteConnection,
    rows: &[T],
    now: Millis,
) -> Result<(), Fault> {
    if !rows.is_empty() {
        sql.query().bind(json(rows)).bind(now.0).execute(conn).await?;
    }
    Ok(())
}

fn json<T: Serialize>(rows: &[T]) -> String {
    serde_json::to_string(rows).expect("numbers, texts and causes are always JSON")
}
