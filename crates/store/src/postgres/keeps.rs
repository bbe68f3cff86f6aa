//! What is put, taken in, listed, trimmed and looked after.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, Counts, Event, EventId, Fence, Filter, InboxEnd, Keep, Listing, Millis, Page};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::find::Shelves;
use super::statements::{MIGRATIONS, migration};
use super::{Postgres, examine, grants, history, inbox, put};
use crate::listing::{RECENT, counts, find};
use crate::server::{Base, Fault, Keeps, Scope, SeenDay};
use crate::whole::tables;
use crate::{Accounts, Finding};

/// How many rows of history a step looks at, at each of two places, to find what is old.
const LOOK: i64 = 1_000;

/// How long a relay that was not seen is remembered.
const GONE: Duration = Duration::from_secs(86_400);

fn step(keep: &Keep) -> i64 {
    i64::try_from(keep.step).unwrap_or(i64::MAX)
}

/// Reads identities.
fn ids(rows: &[PgRow]) -> Result<Vec<EventId>, Fault> {
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        ids.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
    }
    Ok(ids)
}

#[async_trait]
impl Keeps for Postgres {
    const WANTED: u32 = MIGRATIONS.len() as u32 - 1;
    const MIGRATES: Scope = Scope::Transaction;

    async fn put(
        &self,
        conn: &mut PgConnection,
        events: &[Event],
        due: Option<Millis>,
        now: Option<i64>,
    ) -> Result<(), Fault> {
        Ok(put::write(&self.sql, conn, events, due, now).await?)
    }

    async fn begin_work(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        group: &str,
        id: EventId,
        lease: i64,
    ) -> Result<Begun, Fault> {
        Ok(inbox::begin(&self.sql, conn, now, group, id, lease).await?)
    }

    async fn finish_work(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        group: &str,
        id: EventId,
        fence: Fence,
        end: &InboxEnd,
    ) -> Result<bool, Fault> {
        let (status, cause) = match end {
            InboxEnd::Processed => ("PROCESSED", None),
            InboxEnd::Failed(cause) => ("FAILED", Some(cause.to_string())),
        };
        let query = self.sql.inbox_finish.query().bind(now).bind(group);
        let query = query.bind(id.to_string()).bind(fence.0).bind(status).bind(cause);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }

    async fn take_chores(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        owner: &str,
        lease: i64,
    ) -> Result<Option<Millis>, Fault> {
        let query = self.sql.take_chores.query().bind(now).bind(owner).bind(lease);
        let row = query.fetch_optional(conn).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.map(Millis))
    }

    async fn trim_sent(
        &self,
        conn: &mut PgConnection,
        keep: &Keep,
        now: Millis,
    ) -> Result<u64, Fault> {
        let step = step(keep);
        let query = self.sql.trim_sent.query().bind((now - keep.sent).0).bind(step);
        Ok(query.bind(step.max(LOOK)).execute(conn).await?.rows_affected())
    }

    async fn trim(&self, conn: &mut PgConnection, keep: &Keep, now: Millis) -> Result<u64, Fault> {
        let query = self.sql.trim_inbox.query().bind((now - keep.inbox).0).bind(step(keep));
        let inbox = query.bind(now.0).execute(&mut *conn).await?.rows_affected();
        self.sql.trim_relays.query().bind((now - GONE).0).execute(conn).await?;
        Ok(inbox)
    }

    async fn days(
        &self,
        conn: &mut PgConnection,
        slots: &[i64],
        most: i64,
    ) -> Result<BTreeMap<i64, SeenDay>, Fault> {
        history::days(&self.sql, conn, slots, most).await
    }

    const DROPS: Scope = Scope::Transaction;
    const BACK_OFF: Duration = Duration::ZERO;

    async fn hold_day(&self, conn: &mut PgConnection, slot: i64) -> Result<bool, Fault> {
        history::hold(&self.table, conn, slot).await
    }

    async fn drop_day(&self, conn: &mut PgConnection, slot: i64) -> Result<bool, Fault> {
        history::truncate(&self.table, conn, slot).await?;
        Ok(true)
    }

    async fn find(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
        filter: &Filter,
        page: &Page,
    ) -> Result<Listing, Fault> {
        find(&mut Shelves { base, conn }, filter, page).await
    }

    async fn count(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        many: i64,
    ) -> Result<Counts, Fault> {
        let query = self.sql.count.query().bind(now);
        let row = query.bind(many.saturating_add(1)).bind(RECENT).fetch_one(conn).await?;
        counts(many, |name| Ok::<_, Fault>(row.try_get(name)?))
    }

    async fn dead_in_order(
        &self,
        conn: &mut PgConnection,
        named: &[EventId],
    ) -> Result<Vec<EventId>, Fault> {
        let texts: Vec<String> = named.iter().map(EventId::to_string).collect();
        ids(&self.sql.requeue_order.query().bind(texts).fetch_all(conn).await?)
    }

    async fn revive(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        named: &[EventId],
    ) -> Result<Vec<EventId>, Fault> {
        let texts: Vec<String> = named.iter().map(EventId::to_string).collect();
        ids(&self.sql.requeue.query().bind(now).bind(texts).fetch_all(conn).await?)
    }

    async fn has(&self, conn: &mut PgConnection, name: &str) -> Result<bool, Fault> {
        let query = self.sql.has_versions.query().bind(name.to_owned());
        Ok(query.fetch_one(conn).await?.try_get(0)?)
    }

    fn tables(&self, version: u32) -> Vec<String> {
        tables(&MIGRATIONS[..=version as usize], &self.table)
    }

    async fn version(&self, conn: &mut PgConnection) -> Result<u32, Fault> {
        if !self.has(conn, &format!("{}_schema", self.table)).await? {
            return Ok(0);
        }
        let row = self.sql.read_version.query().fetch_one(conn).await?;
        let version: Option<i32> = row.try_get(0)?;
        Ok(version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0))
    }

    async fn queue_up(&self, conn: &mut PgConnection) -> Result<(), Fault> {
        // The number is that of our name, and the transaction's end lets it go.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
        let name = format!("postbox {}", self.table);
        sqlx::query(lock).bind(name).execute(&mut *conn).await?;
        let text = migration(MIGRATIONS[0], &self.table, 1);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await?;
        Ok(())
    }

    async fn apply(&self, conn: &mut PgConnection, version: u32, shards: u16) -> Result<(), Fault> {
        let text = migration(MIGRATIONS[version as usize], &self.table, shards);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *conn).await?;
        let version = i32::try_from(version).expect("there are few migrations");
        self.sql.write_version.query().bind(version).execute(conn).await?;
        Ok(())
    }

    async fn leave_queue(&self, _: &mut PgConnection) -> Result<(), Fault> {
        Ok(())
    }

    fn grants(&self, accounts: &Accounts) -> String {
        grants::grants(&self.table, accounts)
    }

    fn migration(&self, shards: u16) -> String {
        let mut text = String::new();
        for (version, file) in (0..).zip(MIGRATIONS) {
            text += &migration(file, &self.table, shards);
            if version > 0 {
                let insert = self.sql.write_version.text().replace("$1", &u32::to_string(&version));
                text += &(insert.trim_end().to_owned() + ";\n");
            }
            text.push('\n');
        }
        text
    }

    async fn examine(
        base: &Base<Postgres>,
        conn: &mut PgConnection,
    ) -> Result<Vec<Finding>, Fault> {
        examine::examine(base, conn).await
    }
}
