//! What waits. Rows of transactions that had begun at a look are found by the snapshots.

use std::collections::BTreeMap;

use async_trait::async_trait;
use event::{Cause, Event, Fence, Millis};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::begins::{Begins, Open};
use super::rows::{self, number};
use super::statements::Sql;
use crate::own::{Look, Mark, Part, Passed, Snapshot};
use crate::server::{Base, Claimed, Claims, DueRow, Fault, Glance, Holder, Shown, Sighted};

#[async_trait]
impl Claims for Postgres {
    type Row = PgRow;
    type Seen = Snapshot;

    async fn glance(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        lane: usize,
        seen: Millis,
    ) -> Result<Glance<Postgres>, Fault> {
        let era = base.holding().era;
        let shards: Vec<u16> = (0..base.shards(conn).await?).collect();
        let begins = Begins::of(&base.holding().desks[lane], &shards);
        let query = base.db.sql.glance.query().bind(base.now()).bind(&base.owner);
        let query = query.bind(begins.shards).bind(begins.from).bind(seen.0);
        let open = begins.open;
        let query = query.bind(open.shards).bind(open.xids).bind(open.wide).bind(open.from);
        let (now, newest, seen) = (Millis(0), 0, Snapshot::default());
        let mut glance = Glance { looks: Vec::new(), now, newest, seen };
        for row in query.fetch_all(conn).await? {
            glance.now = Millis(row.try_get(0)?);
            glance.newest = row.try_get::<Option<i64>, _>(8)?.unwrap_or(0);
            if glance.looks.is_empty() {
                let seen = rows::snapshot(&row, 9, 11)?;
                know(base, lane, era, seen.mark(row.try_get(10)?));
                glance.seen = seen;
            }
            let first: Option<i64> = row.try_get(6)?;
            glance.looks.push(Look {
                shard: rows::shard(&row, 1)?,
                now: glance.now,
                owner: row.try_get(2)?,
                mark: Fence(row.try_get(3)?),
                until: Millis(row.try_get(4)?),
                hot: row.try_get(5)?,
                ahead: first.is_some(),
                front: first.unwrap_or(0),
                due: row.try_get::<Option<i64>, _>(7)?.map(Millis),
                newest: glance.newest,
            });
        }
        Ok(glance)
    }

    async fn look(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        lane: usize,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown<Postgres>, Fault> {
        shown(base, conn, &base.db.sql.read_hot, lane, shards, chunk).await
    }

    fn topic(row: &PgRow) -> Result<&str, Fault> {
        rows::text(row, 2)
    }

    fn event(row: &PgRow) -> Result<Result<Event, Cause>, Fault> {
        rows::event(row, 1)
    }

    fn passed(_: &mut Part, _: i64) {}

    fn saw(part: &mut Part, seen: &Snapshot, sighted: &Sighted) {
        let &Sighted { from, before, shown, open, .. } = sighted;
        // A shard that showed nothing was not reached, if there may have been more.
        if shown.is_none() && open {
            return;
        }
        let sight = &mut part.sight;
        let began = sight.began(seen, from);
        let ended = open.then(|| shown.flatten().unwrap_or(began));
        sight.saw(seen, began, before, ended);
    }

    fn saw_later(part: &mut Part, seen: &Snapshot, newest: i64, mut passed: Passed) {
        part.late.saw(seen, passed.newest);
        passed.newest = passed.newest.max(newest);
        part.passed = passed;
    }

    async fn holders(&self, conn: &mut PgConnection, shard: u16) -> Result<Vec<Holder>, Fault> {
        let read = |row: &PgRow| {
            let (number, birth) = (row.try_get(0)?, row.try_get(1)?);
            let (key, topic) = (rows::text(row, 2)?.to_owned(), rows::text(row, 3)?.to_owned());
            Ok(Holder { number, birth, key, topic })
        };
        let rows = self.sql.holders.query().bind(number(shard)).fetch_all(conn).await?;
        rows.iter().map(read).collect()
    }

    async fn due_later(
        &self,
        conn: &mut PgConnection,
        now: Millis,
        places: &[(u16, Millis, i64)],
        chunk: i64,
    ) -> Result<Vec<DueRow>, Fault> {
        let shards: Vec<i16> = places.iter().map(|(shard, ..)| number(*shard)).collect();
        let dues: Vec<i64> = places.iter().map(|(_, due, _)| due.0).collect();
        let numbers: Vec<i64> = places.iter().map(|(.., number)| *number).collect();
        let query = self.sql.due_later.query().bind(now.0).bind(shards);
        let query = query.bind(dues).bind(numbers).bind(chunk);
        query.fetch_all(conn).await?.iter().map(|row| rows::due(row, false)).collect()
    }

    async fn new_later(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        lane: usize,
        passed: &BTreeMap<u16, Passed>,
    ) -> Result<Vec<DueRow>, Fault> {
        let mut open = Open::default();
        for shard in passed.keys() {
            open.add(*shard, base.holding().desks[lane].part(*shard).late.open());
        }
        let passed = || passed.iter().filter(|(_, passed)| !passed.is_nothing());
        let shards: Vec<i16> = passed().map(|(shard, _)| number(*shard)).collect();
        let newest: Vec<i64> = passed().map(|(_, passed)| passed.newest).collect();
        let dues: Vec<i64> = passed().map(|(_, passed)| passed.due.0).collect();
        let numbers: Vec<i64> = passed().map(|(_, passed)| passed.number).collect();
        let query = base.db.sql.new_later.query();
        let query = query.bind(shards).bind(newest).bind(dues).bind(numbers);
        let query = query.bind(open.shards).bind(open.xids).bind(open.wide).bind(open.from);
        query.fetch_all(conn).await?.iter().map(|row| rows::due(row, true)).collect()
    }

    async fn claim_later(
        &self,
        conn: &mut PgConnection,
        rows: &[(i64, Fence)],
        until: Millis,
    ) -> Result<Vec<Claimed>, Fault> {
        let (numbers, fences): (Vec<i64>, Vec<i64>) =
            rows.iter().map(|(number, fence)| (*number, fence.0)).unzip();
        let query = self.sql.claim_later.query().bind(numbers).bind(fences).bind(until.0);
        query.fetch_all(conn).await?.iter().map(claimed).collect()
    }
}

/// Reads a later row that was claimed.
pub(super) fn claimed(row: &PgRow) -> Result<Claimed, Fault> {
    Ok(Claimed {
        number: row.try_get(0)?,
        event: rows::event(row, 1)?,
        attempt: rows::small(row, 9)?,
        trail: rows::trail(row, 10)?,
        unexplained: rows::small(row, 11)?,
    })
}

/// Remembers what a look told of the numbers of hot rows, if it is still about the same server.
pub(super) fn know(base: &Base<Postgres>, lane: usize, era: u64, mark: Option<Mark>) {
    let mut holding = base.holding();
    if let (Some(mark), true) = (mark, holding.era == era) {
        holding.desks[lane].mark = mark;
    }
}

/// Reads the next hot rows of a lane with a statement.
pub(super) async fn shown(
    base: &Base<Postgres>,
    conn: &mut PgConnection,
    sql: &Sql,
    lane: usize,
    shards: &[u16],
    chunk: i64,
) -> Result<Shown<Postgres>, Fault> {
    let begins = Begins::of(&base.holding().desks[lane], shards);
    let mark = begins.mark;
    let from = shards.iter().copied().zip(begins.from.iter().copied()).collect();
    let query = sql.query().bind(begins.shards).bind(begins.from).bind(chunk);
    let open = begins.open;
    let query = query.bind(open.shards).bind(open.xids).bind(open.wide).bind(open.from);
    let mut hot = query.fetch_all(conn).await?.into_iter();
    let seen = match hot.next() {
        Some(first) => rows::snapshot(&first, 5, 0)?.with(mark),
        None => Snapshot::default(),
    };
    let mut line = Vec::with_capacity(hot.len());
    for row in hot {
        line.push((row.try_get::<i64, _>(0)?, rows::shard(&row, 9)?, row));
    }
    line.sort_by_key(|(seq, ..)| *seq);
    let cut = line.len() as i64 == chunk;
    Ok(Shown { line, seen, from, cut })
}
