//! Settling under the fence of each row: what was claimed again since is stale, and unchanged.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{Millis, Outcome, Settled, Settlement, StoreError};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use super::super::base::Base;
use super::super::connect::Commit;
use super::super::error::Fault;
use super::super::glance::{clock, number};
use super::super::work::{Scope, Work};
use super::lane::Lane;
use crate::compete::{Ends, Named, Out};

/// Writes outcomes down.
pub(super) async fn settle(lane: &Lane, ends: Vec<Settlement>) -> Result<Settled, StoreError> {
    let mut named = HashSet::new();
    let rows = {
        let flight = lane.flight();
        let out = |end: &Settlement| {
            let out = flight.of(end).filter(|_| named.insert(end.address.number));
            Some((end.clone(), out?.clone()))
        };
        ends.iter().map(out).collect::<Vec<_>>()
    };
    let fresh: Vec<bool> = rows.iter().map(Option::is_some).collect();
    let mut settling = Settling { rows: rows.into_iter().flatten().collect() };
    let done = match settling.rows.is_empty() {
        true => HashSet::new(),
        false => lane.base.work(&mut settling).await?,
    };
    let mut settled = Settled::default();
    for (end, fresh) in ends.iter().zip(fresh) {
        if fresh && done.contains(&end.address.number) {
            settled.settled += 1;
        } else {
            settled.stale.push(end.id);
        }
        if fresh {
            lane.flight().end(end);
        }
    }
    Ok(settled)
}

/// Puts everything that a lane has in flight back, as if it had not been claimed. Another lane of
/// the relay that goes on says again that it is there.
pub(super) async fn release(lane: &Lane) -> Result<(), StoreError> {
    let _turn = lane.turn.lock().await;
    let mut back = Named::default();
    for (number, out) in lane.flight().drain() {
        back.push(number, out.fence, out.id);
    }
    let there = lane.base.sharing().depart();
    match there || !back.is_empty() {
        true => lane.base.work(&mut Releasing { back }).await,
        false => Ok(()),
    }
}

struct Releasing {
    back: Named,
}

#[async_trait]
impl Work for Releasing {
    type Out = ();
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        if !self.back.is_empty() {
            let now = clock(base, conn).await?;
            let query = bind(base.sql.fenced_release.query(), &self.back);
            query.bind(vec![now.0; self.back.numbers.len()]).execute(&mut *conn).await?;
        }
        base.sql.depart.query().bind(&base.owner).execute(conn).await?;
        Ok(())
    }
}

/// Outcomes of rows in flight.
struct Settling {
    rows: Vec<(Settlement, Out)>,
}

impl Settling {
    /// Tells whether all of it was published.
    fn is_plain(&self) -> bool {
        self.rows.iter().all(|(end, _)| matches!(end.outcome, Outcome::Done(_)))
    }
}

#[async_trait]
impl Work for Settling {
    type Out = HashSet<i64>;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        if self.is_plain() { Scope::Statement } else { Scope::Transaction }
    }

    /// Returns the rows that were settled.
    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        let now = if self.is_plain() { Millis(0) } else { clock(base, conn).await? };
        let mut ends = Ends::default();
        self.rows.iter().for_each(|(end, out)| ends.add(end, out, now));
        let mut settled = HashSet::with_capacity(self.rows.len());
        let mut learn = |rows: Vec<PgRow>| -> Result<(), Fault> {
            for row in rows {
                settled.insert(row.try_get(0)?);
            }
            Ok(())
        };
        let (named, dues, trails) = ends.retry;
        if !named.is_empty() {
            let query = bind(base.sql.fenced_retry.query(), &named).bind(dues).bind(trails);
            learn(query.bind(now.0).fetch_all(&mut *conn).await?)?;
        }
        let (named, dues) = ends.release;
        if !named.is_empty() {
            let query = bind(base.sql.fenced_release.query(), &named).bind(dues);
            learn(query.fetch_all(&mut *conn).await?)?;
        }
        let (named, attempts, trails) = ends.dead;
        if !named.is_empty() {
            let query = bind(base.sql.fenced_dead.query(), &named).bind(attempts).bind(trails);
            learn(query.bind(now.0).fetch_all(&mut *conn).await?)?;
        }
        let (named, ids) = ends.done;
        if !named.is_empty() {
            // The lease row that counts is opened last, and for the shortest time.
            let counter = number(base.counter % base.shards(&mut *conn).await?);
            let query = match base.history {
                true => bind(base.sql.fenced_done.query(), &named).bind(ids).bind(base.now()),
                false => bind(base.sql.fenced_gone.query(), &named),
            };
            learn(query.bind(counter).fetch_all(conn).await?)?;
        }
        Ok(settled)
    }
}

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    named: &Named,
) -> Query<'q, Postgres, PgArguments> {
    query.bind(named.numbers.clone()).bind(named.fences.clone()).bind(named.ids.clone())
}
