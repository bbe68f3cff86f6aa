//! SQLite: one file, one shard, one writer at a time.

use std::time::Instant;

use anyhow::{Result, bail};
use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, SqliteConnection};
use store::{Setup, Strategy};
use tempfile::TempDir;

use super::BATCH;
use super::bed::Bed;
use super::producers::{TRANSACTIONS, key, payload};
use super::shapes::Shape;

pub(super) struct File {
    folder: TempDir,
}

impl File {
    pub(super) fn new() -> Result<File> {
        Ok(File { folder: tempfile::tempdir()? })
    }
}

/// Returns a SELECT of so many events, with further columns.
fn events(count: usize, more: &str) -> String {
    let payload = payload();
    format!(
        "WITH RECURSIVE numbers (n) AS \
         (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) \
         SELECT 'order.paid', 'OrderPaid', 'k' || n, '{payload}'{more} FROM numbers"
    )
}

async fn open(url: &str) -> Result<SqliteConnection> {
    let options = url.parse::<SqliteConnectOptions>()?.journal_mode(SqliteJournalMode::Wal);
    let options = options.synchronous(SqliteSynchronous::Full).disable_statement_logging();
    Ok(options.connect().await?)
}

async fn run(url: &str, sql: String) -> Result<()> {
    let mut connection = open(url).await?;
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    connection.close().await?;
    Ok(())
}

#[async_trait]
impl Bed for File {
    fn width(&self) -> usize {
        1
    }

    fn shapes(&self) -> &'static [Shape] {
        &[]
    }

    fn strategies(&self) -> &'static [Strategy] {
        &[]
    }

    fn listens(&self) -> bool {
        false
    }

    async fn outbox(&self, events: usize, behind: usize) -> Result<String> {
        let file = self.folder.path().join(format!("{:012x}.sqlite3", fastrand::u64(..1 << 48)));
        let url = format!("sqlite:{}", file.display());
        let outbox = store::open(&Setup::new(&*url)).await?;
        outbox.migrate().await?;
        outbox.close().await;
        run(&url, "CREATE TABLE sale (id INTEGER PRIMARY KEY, total INTEGER NOT NULL)".into())
            .await?;
        if behind > 0 {
            let more = ", n, printf('01900000-0000-7000-8000-%012x', n), '{}', \
                        1700000000000 + n, 1, 1700000000000 + n";
            let rows = self::events(behind, more);
            let into = "INSERT INTO outbox_sent (topic, event_type, biz_key, payload, seq, \
                        event_id, headers, created_at, attempts, sent_at)";
            run(&url, format!("{into} {rows}")).await?;
        }
        self.fill(&url, events).await?;
        Ok(url)
    }

    async fn fill(&self, url: &str, count: usize) -> Result<()> {
        if count > 0 {
            let into = "INSERT INTO outbox (topic, event_type, biz_key, payload)";
            run(url, format!("{into} {}", events(count, ""))).await?;
        }
        run(url, "PRAGMA wal_checkpoint(TRUNCATE)".into()).await
    }

    async fn later(&self, url: &str, count: usize, due: &str) -> Result<()> {
        let into = "INSERT INTO outbox_later (topic, event_type, biz_key, payload, due_at)";
        run(url, format!("{into} {}", events(count, &format!(", {due}")))).await?;
        run(url, "PRAGMA wal_checkpoint(TRUNCATE)".into()).await
    }

    async fn count(&self, url: &str, table: &str) -> Result<usize> {
        let mut connection = open(url).await?;
        let count = sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {table}")));
        let count: i64 = count.fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(usize::try_from(count)?)
    }

    async fn snapshot(&self, url: &str) -> Result<Box<dyn Send>> {
        let mut connection = open(url).await?;
        connection.execute("BEGIN").await?;
        connection.fetch_one("SELECT count(*) FROM sale").await?;
        Ok(Box::new(connection))
    }

    async fn raw(&self, url: &str, events: usize) -> Result<f64> {
        crate::raw::drain(url, events, false, BATCH).await
    }

    async fn shape(&self, shape: &Shape, _: usize) -> Result<f64> {
        bail!("a file has one writer: {} would lock it", shape.name)
    }

    async fn produce(&self, url: &str, event: bool) -> Result<f64> {
        let mut connection = open(url).await?;
        let start = Instant::now();
        for _ in 0..TRANSACTIONS {
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("INSERT INTO sale (total) VALUES (42)").execute(&mut *tx).await?;
            if event {
                let put = sqlx::query(
                    "INSERT INTO outbox (topic, event_type, biz_key, payload) \
                     VALUES ('order.paid', 'OrderPaid', ?, ?)",
                );
                put.bind(key()).bind(payload()).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
        Ok(TRANSACTIONS as f64 / start.elapsed().as_secs_f64())
    }
}
