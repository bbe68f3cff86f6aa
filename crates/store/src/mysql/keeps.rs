//! What is put, taken in, listed, trimmed and looked after.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, Counts, Event, EventId, Fence, Filter, InboxEnd, Keep, Listing, Millis, Page};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::find::Shelves;
use super::statements::{MIGRATIONS, migration};
use super::template::Value;
use super::{MySql, count, examine, grants, history, inbox, put, rows};
use crate::listing::find;
use crate::server::rows::Cells;
use crate::server::{Base, Connects, Fault, Keeps, Scope, SeenDay, broken};
use crate::whole::tables;
use crate::{Accounts, Finding};

/// How many rows of history a step looks at, at each of two places, to find what is old.
const LOOK: i64 = 1_000;

/// How many rows one statement names.
const AT_ONCE: usize = 512;

/// How long a relay that was not seen is remembered.
const GONE: Duration = Duration::from_secs(86_400);

/// For how many seconds a migration waits for another.
const QUEUE: i64 = 20;

fn step(keep: &Keep) -> i64 {
    i64::try_from(keep.step).unwrap_or(i64::MAX)
}

#[async_trait]
impl Keeps for MySql {
    const WANTED: u32 = MIGRATIONS.len() as u32 - 1;
    /// Whatever makes a table commits by itself.
    const MIGRATES: Scope = Scope::Statement;

    fn puts(events: &[Event]) -> Scope {
        match put::statements(events).len() {
            1 => Scope::Statement,
            _ => Scope::Transaction,
        }
    }

    async fn put(
        &self,
        conn: &mut MySqlConnection,
        events: &[Event],
        due: Option<Millis>,
        now: Option<i64>,
    ) -> Result<(), Fault> {
        Ok(put::write(&self.sql, conn, events, due, now).await?)
    }

    async fn begin_work(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        group: &str,
        id: EventId,
        lease: i64,
    ) -> Result<Begun, Fault> {
        Ok(inbox::begin(&self.sql, conn, now, group, id, lease).await?)
    }

    async fn finish_work(
        &self,
        conn: &mut MySqlConnection,
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
        let ask = self.sql.inbox_finish.ask().give(now).give(group).give(id.to_string());
        let ask = ask.give(fence.0).give(status).give(cause);
        Ok(ask.run(conn).await?.rows_affected() == 1)
    }

    async fn take_chores(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        owner: &str,
        lease: i64,
    ) -> Result<Option<Millis>, Fault> {
        let ask = self.sql.take_chores.ask().give(now).give(owner).give(lease);
        if ask.run(&mut *conn).await?.rows_affected() == 0 {
            return Ok(None);
        }
        Ok(Some(self.clock(conn, now).await?))
    }

    async fn trim_sent(
        &self,
        conn: &mut MySqlConnection,
        keep: &Keep,
        now: Millis,
    ) -> Result<u64, Fault> {
        let step = step(keep);
        let ask = self.sql.trim_sent.ask().give((now - keep.sent).0).give(step);
        let old = ask.give(step.max(LOOK)).all(&mut *conn).await?;
        let mut sent = 0;
        for some in old.chunks(AT_ONCE) {
            let key = |row| Ok(vec![rows::int(row, 0)?.into(), rows::int(row, 1)?.into()]);
            let named = some.iter().map(key).collect::<Result<Vec<Vec<Value>>, Fault>>()?;
            sent += self.sql.drop_sent.ask().rows(named).run(&mut *conn).await?.rows_affected();
        }
        Ok(sent)
    }

    async fn trim(
        &self,
        conn: &mut MySqlConnection,
        keep: &Keep,
        now: Millis,
    ) -> Result<u64, Fault> {
        let before = (now - keep.inbox).0;
        let ask = self.sql.trim_inbox.ask().give(before).give(step(keep)).give(now.0);
        let mut old = Vec::new();
        for row in ask.all(&mut *conn).await? {
            let group = row.cell_bytes(0)?.map(<[u8]>::to_vec);
            old.push((group, rows::text(&row, 1)?.to_owned()));
        }
        old.sort_unstable();
        let mut inbox = 0;
        for some in old.chunks(AT_ONCE) {
            let key = |(group, id): &(Option<Vec<u8>>, String)| {
                vec![group.clone().into(), id.clone().into()]
            };
            let ask = self.sql.drop_inbox.ask().give(before).give(now.0);
            let gone = ask.rows(some.iter().map(key).collect()).run(&mut *conn).await?;
            inbox += gone.rows_affected();
        }
        self.sql.trim_relays.ask().give((now - GONE).0).run(conn).await?;
        Ok(inbox)
    }

    async fn days(
        &self,
        conn: &mut MySqlConnection,
        slots: &[i64],
        most: i64,
    ) -> Result<BTreeMap<i64, SeenDay>, Fault> {
        history::days(&self.sql, conn, slots, most).await
    }

    /// Whatever changes a table commits by itself.
    const DROPS: Scope = Scope::Statement;
    /// Whoever settles waits behind a trial for as long as it lasts.
    const BACK_OFF: Duration = Duration::from_secs(60);

    async fn hold_day(&self, _: &mut MySqlConnection, _: i64) -> Result<bool, Fault> {
        Ok(true)
    }

    async fn drop_day(&self, conn: &mut MySqlConnection, slot: i64) -> Result<bool, Fault> {
        history::truncate(&self.table, conn, slot).await
    }

    async fn find(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        filter: &Filter,
        page: &Page,
    ) -> Result<Listing, Fault> {
        find(&mut Shelves { base, conn }, filter, page).await
    }

    async fn count(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        many: i64,
    ) -> Result<Counts, Fault> {
        count::count(&self.sql, conn, now, many).await
    }

    async fn dead_in_order(
        &self,
        conn: &mut MySqlConnection,
        named: &[EventId],
    ) -> Result<Vec<EventId>, Fault> {
        let mut ids = Vec::with_capacity(named.len());
        let texts = named.iter().map(EventId::to_string);
        for row in self.sql.requeue_order.ask().list(texts).all(conn).await? {
            ids.extend(rows::text(&row, 0)?.parse::<EventId>());
        }
        Ok(ids)
    }

    async fn revive(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        named: &[EventId],
    ) -> Result<Vec<EventId>, Fault> {
        let texts = named.iter().map(EventId::to_string);
        let mut dead: BTreeMap<EventId, Vec<i64>> = BTreeMap::new();
        for row in self.sql.requeue_lock.ask().list(texts).all(&mut *conn).await? {
            if let Ok(id) = rows::text(&row, 1)?.parse() {
                dead.entry(id).or_default().push(rows::int(&row, 0)?);
            }
        }
        let there = named.iter().filter_map(|id| dead.get(id)).flatten().copied();
        let numbers: Vec<i64> = there.collect();
        for some in numbers.chunks(AT_ONCE) {
            let place =
                |(at, number): (i64, &i64)| -> Vec<Value> { vec![(*number).into(), at.into()] };
            let lives = (0..).zip(some).map(place).collect();
            self.sql.requeue.ask().give(now).rows(lives).run(&mut *conn).await?;
            let gone = some.iter().map(|number| vec![(*number).into()]).collect();
            self.sql.drop_dead.ask().rows(gone).run(&mut *conn).await?;
        }
        Ok(dead.into_keys().collect())
    }

    async fn has(&self, conn: &mut MySqlConnection, name: &str) -> Result<bool, Fault> {
        let ask = self.sql.has_versions.ask().give(name.to_owned());
        Ok(rows::int(&ask.one(conn).await?, 0)? != 0)
    }

    fn tables(&self, version: u32) -> Vec<String> {
        tables(&MIGRATIONS[..=version as usize], &self.table)
    }

    async fn version(&self, conn: &mut MySqlConnection) -> Result<u32, Fault> {
        if !self.has(conn, &format!("{}_schema", self.table)).await? {
            return Ok(0);
        }
        rows::small(&self.sql.read_version.ask().one(conn).await?, 0)
    }

    async fn queue_up(&self, conn: &mut MySqlConnection) -> Result<(), Fault> {
        let lock =
            sqlx::query("SELECT GET_LOCK(CONCAT('postbox ', SHA2(CONCAT(DATABASE(), ?), 224)), ?)");
        let row = lock.bind(&self.table).bind(QUEUE).fetch_one(&mut *conn).await?;
        if row.cell_int(0)? != Some(1) {
            return Err(broken("another migration of these tables has run for too long"));
        }
        let text = migration(MIGRATIONS[0], &self.table, 1);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await?;
        Ok(())
    }

    async fn apply(
        &self,
        conn: &mut MySqlConnection,
        version: u32,
        shards: u16,
    ) -> Result<(), Fault> {
        let text = migration(MIGRATIONS[version as usize], &self.table, shards);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *conn).await?;
        self.sql.write_version.ask().give(i64::from(version)).run(conn).await?;
        Ok(())
    }

    async fn leave_queue(&self, conn: &mut MySqlConnection) -> Result<(), Fault> {
        let free = "DO RELEASE_LOCK(CONCAT('postbox ', SHA2(CONCAT(DATABASE(), ?), 224)))";
        sqlx::query(free).bind(&self.table).execute(conn).await?;
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
                let table = &self.table;
                text += &format!("INSERT INTO {table}_schema (version) VALUES ({version});\n");
            }
            text.push('\n');
        }
        text
    }

    async fn examine(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
    ) -> Result<Vec<Finding>, Fault> {
        examine::examine(base, conn).await
    }
}
