//! What competing relays ask: who is quicker, and with which strategy the outbox is claimed.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{EventId, Fence, Millis};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::begins::Begins;
use super::claims::{claimed, shown};
use super::rows::{self, number};
use crate::Strategy;
use crate::own::{Part, Snapshot};
use crate::server::{Base, Candidate, Claimed, Competes, Fault, Glance, Seen, Shown, Waits};

#[async_trait]
impl Competes for Postgres {
    async fn see(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        lane: usize,
        shards: &[u16],
        longest: i64,
    ) -> Result<Seen<Postgres>, Fault> {
        let begins = Begins::of(&base.holding().desks[lane], shards);
        let query = base.db.sql.see.query().bind(base.now()).bind(longest);
        let query = query.bind(begins.shards).bind(begins.from);
        let open = begins.open;
        let query = query.bind(open.shards).bind(open.xids).bind(open.from);
        let (now, newest, seen) = (Millis(0), 0, Snapshot::default());
        let glance = Glance { looks: Vec::new(), now, newest, seen };
        let mut seen = Seen { glance, waits: Vec::new(), astray: false };
        for row in query.fetch_all(conn).await? {
            if seen.waits.is_empty() {
                seen.glance.now = Millis(row.try_get(0)?);
                seen.glance.newest = row.try_get::<Option<i64>, _>(4)?.unwrap_or(0);
                seen.glance.seen = rows::snapshot(&row, 5)?;
                seen.astray = row.try_get(6)?;
            }
            seen.waits.push(Waits {
                shard: rows::shard(&row, 1)?,
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

    async fn move_hot(
        &self,
        conn: &mut PgConnection,
        strategy: Strategy,
        rows: &[Candidate],
        fence: Fence,
        until: Millis,
    ) -> Result<Vec<(i64, i64)>, Fault> {
        let sql = match strategy {
            Strategy::SkipLocked => &self.sql.move_free,
            _ => &self.sql.move_hot,
        };
        let query = sql.query().bind(rows.iter().map(|row| number(row.shard)).collect::<Vec<_>>());
        let query = query.bind(rows.iter().map(|row| row.seq).collect::<Vec<_>>());
        let query = query.bind(rows.iter().map(|row| row.place).collect::<Vec<_>>());
        let moved = query.bind(fence.0).bind(until.0).fetch_all(conn).await?;
        moved.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
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

    fn missed(part: &mut Part, seq: i64) {
        part.sight.miss(seq);
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
        self.sql.free_leases.query().execute(&mut *conn).await?;
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
