//! What competing relays ask: whose a line is for the moment, and with which strategy the outbox is
//! claimed.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{EventId, Fence, Millis};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::begins::Begins;
use super::claims::{claimed, know, shown};
use super::rows::{self, count, number};
use crate::Strategy;
use crate::compete::{Line, Named};
use crate::own::Snapshot;
use crate::server::{Base, Claimed, Competes, Fault, Glance, Seen, Shown, Waits};

#[async_trait]
impl Competes for Postgres {
    async fn see(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        lane: usize,
        shards: &[u16],
        longest: i64,
    ) -> Result<Seen<Postgres>, Fault> {
        let era = base.holding().era;
        let begins = Begins::of(&base.holding().desks[lane], shards);
        let query = base.db.sql.see.query().bind(base.now()).bind(longest);
        let query = query.bind(begins.shards).bind(begins.from);
        let open = begins.open;
        let query = query.bind(open.shards).bind(open.xids).bind(open.wide).bind(open.from);
        let (now, newest, seen) = (Millis(0), 0, Snapshot::default());
        let glance = Glance { looks: Vec::new(), now, newest, seen };
        let mut seen = Seen { glance, waits: Vec::new(), astray: false };
        for row in query.fetch_all(conn).await? {
            if seen.waits.is_empty() {
                seen.glance.now = Millis(row.try_get(0)?);
                seen.glance.newest = row.try_get::<Option<i64>, _>(4)?.unwrap_or(0);
                let snapshot = rows::snapshot(&row, 5, 11)?;
                know(base, lane, era, snapshot.mark(row.try_get(10)?));
                seen.glance.seen = snapshot;
                seen.astray = row.try_get(6)?;
            }
            let ends: (Option<i64>, Option<i64>) = (row.try_get(8)?, row.try_get(9)?);
            seen.waits.push(Waits {
                shard: rows::shard(&row, 1)?,
                fence: Fence(row.try_get(7)?),
                ends: ends.0.map(Millis).zip(ends.1.map(Millis)),
                ahead: row.try_get(2)?,
                due: row.try_get::<Option<i64>, _>(3)?.map(Millis),
            });
        }
        Ok(seen)
    }

    async fn candidates(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        lane: usize,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown<Postgres>, Fault> {
        shown(base, conn, &base.db.sql.read_hot, lane, shards, chunk).await
    }

    /// A server that can pass over what another has open needs no names in its lines.
    async fn preempt(
        &self,
        _: &mut PgConnection,
        _: Option<i64>,
        _: &str,
        _: (Millis, i64),
        _: &[u16],
        _: usize,
    ) -> Result<Vec<u16>, Fault> {
        Ok(Vec::new())
    }

    async fn open_lines(
        &self,
        conn: &mut PgConnection,
        strategy: Strategy,
        now: Option<i64>,
        _: &str,
        lines: &[(u16, Fence)],
        most: usize,
    ) -> Result<Vec<Line>, Fault> {
        let shards = |lines: &[(u16, Fence)]| -> Vec<i16> {
            lines.iter().map(|(shard, _)| number(*shard)).collect()
        };
        if strategy == Strategy::SkipLocked {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let query = self.sql.line_free.query().bind(now).bind(shards(lines)).bind(most);
            return query.fetch_all(conn).await?.iter().map(line).collect();
        }
        let lines = &lines[..most.min(lines.len())];
        let fences: Vec<i64> = lines.iter().map(|(_, fence)| fence.0).collect();
        let query = self.sql.line_win.query().bind(now).bind(shards(lines)).bind(fences);
        query.fetch_all(conn).await?.iter().map(line).collect()
    }

    async fn hold_lines(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<Line>, Fault> {
        let shards: Vec<i16> = shards.iter().copied().map(number).collect();
        let query = self.sql.line_hold.query().bind(now).bind(shards);
        query.fetch_all(conn).await?.iter().map(line).collect()
    }

    async fn write_lines(
        &self,
        conn: &mut PgConnection,
        _: &str,
        lines: &[Line],
    ) -> Result<(), Fault> {
        let (mut seqs, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines {
            first.push(count(&seqs) + 1);
            seqs.extend(line.out.iter().map(|named| named.seq));
            last.push(count(&seqs));
        }
        let out = || lines.iter().flat_map(|line| &line.out);
        let untils: Vec<i64> = out().map(|named| named.until.0).collect();
        let fences: Vec<i64> = out().map(|named| named.fence.0).collect();
        let (shards, newest): (Vec<i16>, Vec<i64>) =
            lines.iter().map(|line| (number(line.shard), line.fence.0)).unzip();
        let query = self.sql.line_write.query().bind(shards).bind(newest);
        let query = query.bind(first).bind(last).bind(seqs).bind(untils).bind(fences);
        query.execute(conn).await?;
        Ok(())
    }

    async fn win_later(
        &self,
        conn: &mut PgConnection,
        strategy: Strategy,
        rows: &[(i64, Millis)],
        now: Millis,
        until: Millis,
    ) -> Result<Vec<(Claimed, Fence)>, Fault> {
        let sql = match strategy {
            Strategy::SkipLocked => &self.sql.win_free,
            _ => &self.sql.win_later,
        };
        let (numbers, dues): (Vec<i64>, Vec<i64>) =
            rows.iter().map(|(number, due)| (*number, due.0)).unzip();
        let query = sql.query().bind(numbers).bind(dues).bind(now.0).bind(until.0);
        let read = |row: &PgRow| Ok((claimed(row)?, Fence(row.try_get(12)?)));
        query.fetch_all(conn).await?.iter().map(read).collect()
    }

    async fn still(
        &self,
        conn: &mut PgConnection,
        rows: &[(i64, Fence, EventId)],
    ) -> Result<HashSet<i64>, Fault> {
        let numbers: Vec<i64> = rows.iter().map(|(number, ..)| *number).collect();
        let fences: Vec<i64> = rows.iter().map(|(_, fence, _)| fence.0).collect();
        let ids: Vec<String> = rows.iter().map(|(.., id)| id.to_string()).collect();
        let query = self.sql.still.query().bind(numbers).bind(fences).bind(ids);
        query.fetch_all(conn).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn count_sent(
        &self,
        conn: &mut PgConnection,
        shard: u16,
        sent: usize,
    ) -> Result<(), Fault> {
        let sent = i64::try_from(sent).unwrap_or(i64::MAX);
        self.sql.count_sent.query().bind(number(shard)).bind(sent).execute(conn).await?;
        Ok(())
    }

    async fn strategy(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
    ) -> Result<Option<(String, Millis)>, Fault> {
        let row = self.sql.strategy.query().bind(now).fetch_one(conn).await?;
        let (written, now): (Option<String>, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok(written.map(|written| (written, Millis(now))))
    }

    async fn write_strategy(
        &self,
        conn: &mut PgConnection,
        strategy: Strategy,
    ) -> Result<(), Fault> {
        self.sql.free_leases.query().bind(strategy.competes()).execute(&mut *conn).await?;
        self.sql.write_strategy.query().bind(strategy.name()).execute(conn).await?;
        Ok(())
    }

    async fn last_claim(
        &self,
        conn: &mut PgConnection,
        longest: Millis,
    ) -> Result<Option<Millis>, Fault> {
        let row = self.sql.last_claims.query().bind(longest.0).fetch_optional(conn).await?;
        row.map(|row| Ok(Millis(row.try_get(0)?))).transpose()
    }

    async fn others(&self, conn: &mut PgConnection, owner: &str) -> Result<Vec<Millis>, Fault> {
        let rows = self.sql.others.query().bind(owner).fetch_all(conn).await?;
        rows.iter().map(|row| Ok(Millis(row.try_get(0)?))).collect()
    }

    async fn return_later(
        &self,
        conn: &mut PgConnection,
        now: Millis,
        longest: i64,
    ) -> Result<(), Fault> {
        self.sql.return_later.query().bind(now.0).bind(longest).execute(conn).await?;
        Ok(())
    }
}

/// Reads a line that is open.
fn line(row: &PgRow) -> Result<Line, Fault> {
    let (seqs, untils): (Vec<i64>, Vec<i64>) = (row.try_get(3)?, row.try_get(4)?);
    let fences: Vec<i64> = row.try_get(5)?;
    let out = seqs.into_iter().zip(untils).zip(fences).map(|((seq, until), fence)| Named {
        seq,
        until: Millis(until),
        fence: Fence(fence),
    });
    Ok(Line {
        shard: rows::shard(row, 0)?,
        fence: Fence(row.try_get(1)?),
        now: Millis(row.try_get(2)?),
        out: out.collect(),
    })
}
