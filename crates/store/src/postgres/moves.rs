//! Where rows go: one statement for each table and outcome.

use async_trait::async_trait;
use event::{Millis, Shelf};
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::rows::{self, count, number};
use crate::server::{Again, End, Fault, Kept, Moves, Owned, Published};

/// Rows of one table, as the statements take them.
fn places<T>(rows: &[End<T>]) -> (Vec<i16>, Vec<i64>) {
    rows.iter().map(|end| (number(end.address.shard), end.address.number)).unzip()
}

fn each<T, U>(rows: &[End<T>], of: impl Fn(&T) -> U) -> Vec<U> {
    rows.iter().map(|end| of(&end.said)).collect()
}

/// How far apart two numbers of a shard may be and still be looked for in one go: other shards have
/// most of those between.
const NEAR: i64 = 32;

/// Published rows, shard by shard, as the statements take them.
#[derive(Default)]
struct ByShard {
    /// Where the rows of each shard begin and end, counted from 1.
    first: Vec<i32>,
    last: Vec<i32>,
    /// The rows, which rise in each shard.
    numbers: Vec<i64>,
    broker_ids: Vec<Option<String>>,
    /// Whether any of them is a stray.
    strays: bool,
    /// The same rows as runs of neighbours: shards, first and last numbers.
    run_shards: Vec<i16>,
    lows: Vec<i64>,
    highs: Vec<i64>,
}

impl ByShard {
    fn of(owned: &[Owned], rows: &[End<Published>]) -> ByShard {
        let mut rows: Vec<&End<Published>> = rows.iter().collect();
        rows.sort_unstable_by_key(|end| (end.address.shard, end.address.number));
        let mut by_shard = ByShard::default();
        for shard in owned.iter().map(|one| one.shard) {
            by_shard.first.push(count(&by_shard.numbers) + 1);
            let from = rows.partition_point(|end| end.address.shard < shard);
            let rows = rows[from..].iter().take_while(|end| end.address.shard == shard);
            let mut run = None;
            for end in rows {
                by_shard.run(&mut run, shard, end.address.number);
                by_shard.numbers.push(end.address.number);
                by_shard.broker_ids.push(end.said.broker_id.clone());
                by_shard.strays |= end.said.stray;
            }
            by_shard.last.push(count(&by_shard.numbers));
        }
        by_shard
    }

    /// Continues a shard's run, whose last number is given, or begins another.
    fn run(&mut self, run: &mut Option<i64>, shard: u16, seq: i64) {
        match (run.replace(seq), self.highs.last_mut()) {
            (Some(last), Some(high)) if seq - last <= NEAR => *high = seq,
            _ => {
                self.run_shards.push(number(shard));
                self.lows.push(seq);
                self.highs.push(seq);
            }
        }
    }

    /// Returns what the destinations called the rows, if they called any.
    fn broker_ids(&self) -> Option<&[Option<String>]> {
        self.broker_ids.iter().any(Option::is_some).then_some(&self.broker_ids)
    }
}

/// Shards, and what their rows must show.
fn marks(owned: &[Owned]) -> (Vec<i16>, Vec<i64>) {
    owned.iter().map(|one| (number(one.shard), one.mark.0)).unzip()
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
impl Moves for Postgres {
    const ONE_STROKE: bool = true;

    async fn open(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        owner: &str,
        shards: &[Owned],
        back: &[i64],
    ) -> Result<Kept, Fault> {
        let done: Vec<i64> = shards.iter().map(|one| one.done).collect();
        let (shards, marks) = marks(shards);
        if !back.is_empty() {
            let query = self.sql.unname.query().bind(owner).bind(&shards).bind(&marks);
            query.bind(back).execute(&mut *conn).await?;
        }
        let query = self.sql.settle.query().bind(now).bind(owner);
        let query = query.bind(shards).bind(marks).bind(done);
        kept(&query.fetch_all(conn).await?)
    }

    async fn stroke(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        owner: &str,
        shards: &[Owned],
        rows: &[End<Published>],
        history: bool,
    ) -> Result<Kept, Fault> {
        let by_shard = ByShard::of(shards, rows);
        let (shards, marks) = marks(shards);
        let sql = if history { &self.sql.settle_sent } else { &self.sql.settle_gone };
        let query = sql.query().bind(now).bind(owner).bind(shards).bind(marks);
        let query = query.bind(&by_shard.first).bind(&by_shard.last).bind(&by_shard.numbers);
        let query = query.bind(&by_shard.run_shards).bind(&by_shard.lows).bind(&by_shard.highs);
        let query = match history {
            true => query.bind(by_shard.broker_ids()).bind(by_shard.strays),
            false => query,
        };
        kept(&query.fetch_all(conn).await?)
    }

    async fn done(
        &self,
        conn: &mut PgConnection,
        shelf: Shelf,
        rows: &[End<Option<String>>],
        history: bool,
        now: Millis,
    ) -> Result<(), Fault> {
        let (shards, numbers) = places(rows);
        let sql = match (shelf, history) {
            (Shelf::Hot, true) => &self.sql.done_hot,
            (Shelf::Hot, false) => &self.sql.drop_hot,
            (Shelf::Later, true) => &self.sql.done_later,
            (Shelf::Later, false) => &self.sql.drop_later,
        };
        let query = sql.query();
        let query = if shelf == Shelf::Hot { query.bind(shards) } else { query }.bind(numbers);
        let ids = each(rows, Option::clone);
        let query = if history { query.bind(ids).bind(now.0) } else { query };
        query.execute(conn).await?;
        Ok(())
    }

    async fn retry(
        &self,
        conn: &mut PgConnection,
        shelf: Shelf,
        rows: &[End<Again>],
        now: Millis,
    ) -> Result<(), Fault> {
        let (shards, numbers) = places(rows);
        let query = match shelf {
            Shelf::Hot => {
                let query = self.sql.retry_hot.query().bind(shards).bind(numbers);
                let query = query.bind(each(rows, |again| again.attempts));
                query.bind(each(rows, |again| again.fence.0))
            }
            Shelf::Later => self.sql.retry_later.query().bind(numbers),
        };
        let query = query.bind(each(rows, |again| again.due.0));
        query.bind(each(rows, |again| again.trail.clone())).bind(now.0).execute(conn).await?;
        Ok(())
    }

    async fn dead(
        &self,
        conn: &mut PgConnection,
        shelf: Shelf,
        rows: &[End<(i32, String)>],
        now: Millis,
    ) -> Result<(), Fault> {
        let (shards, numbers) = places(rows);
        let query = match shelf {
            Shelf::Hot => self.sql.dead_hot.query().bind(shards),
            Shelf::Later => self.sql.dead_later.query(),
        };
        let query = query.bind(numbers).bind(each(rows, |(attempts, _)| *attempts));
        query.bind(each(rows, |(_, trail)| trail.clone())).bind(now.0).execute(conn).await?;
        Ok(())
    }

    async fn release(&self, conn: &mut PgConnection, rows: &[(i64, Millis)]) -> Result<(), Fault> {
        let (numbers, dues): (Vec<i64>, Vec<i64>) =
            rows.iter().map(|(number, due)| (*number, due.0)).unzip();
        self.sql.release_later.query().bind(numbers).bind(dues).execute(conn).await?;
        Ok(())
    }

    async fn lapse(
        &self,
        conn: &mut PgConnection,
        rows: &[(u16, i64)],
        now: Millis,
    ) -> Result<(), Fault> {
        let (shards, seqs): (Vec<i16>, Vec<i64>) =
            rows.iter().map(|(shard, seq)| (number(*shard), *seq)).unzip();
        self.sql.lapse.query().bind(shards).bind(seqs).bind(now.0).execute(conn).await?;
        Ok(())
    }

    async fn lapse_later(
        &self,
        conn: &mut PgConnection,
        shards: &[u16],
        now: Millis,
    ) -> Result<(), Fault> {
        let shards: Vec<i16> = shards.iter().copied().map(number).collect();
        self.sql.lapse_later.query().bind(shards).bind(now.0).execute(conn).await?;
        Ok(())
    }
}
