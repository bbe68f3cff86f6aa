//! A database of its own for every fact, and sessions in it.
//!
//! Statements go out as they are written, never prepared, so that a fact is about the server and
//! not about the driver.

use std::time::Duration;

use anyhow::{Context, Result};
use it::world::{Address, need};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::postgres::PgConnection;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Connection, Database, Decode, Error, Executor, MySql, Postgres,
    Row, Type, raw_sql,
};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// How long anything may take that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A fresh database on a server.
pub(super) struct Home {
    pub(super) server: Address,
    pub(super) url: String,
}

/// Lends a fresh database to a fact. It is dropped when the fact holds.
pub(super) async fn lend(server: &str, fact: impl AsyncFnOnce(&Home) -> Result<()>) -> Result<()> {
    let server = need(server);
    let name = format!("fact_{}", Uuid::now_v7().simple());
    let (base, _) = server.detail("url").rsplit_once('/').context("a URL with a database")?;
    let home = Home { url: format!("{base}/{name}"), server: server.clone() };
    let (create, drop) = if base.starts_with("postgres") {
        ("", " WITH (FORCE)")
    } else {
        (" CHARACTER SET utf8mb4", "")
    };
    order(&server, format!("CREATE DATABASE {name}{create}")).await?;
    fact(&home).await?;
    order(&server, format!("DROP DATABASE {name}{drop}")).await
}

async fn order(server: &Address, sql: String) -> Result<()> {
    let url = server.detail("url");
    if url.starts_with("postgres") {
        Session::<Postgres>::open(url).await?.run(sql).await?;
    } else {
        Session::<MySql>::open(url).await?.run(sql).await?;
    }
    Ok(())
}

impl Home {
    /// Opens a session on PostgreSQL.
    pub(super) async fn postgres(&self) -> Result<Session<Postgres>> {
        Ok(Session::open(&self.url).await?)
    }

    /// Opens a session on MySQL or MariaDB.
    pub(super) async fn mysql(&self) -> Result<Session<MySql>> {
        Ok(Session::open(&self.url).await?)
    }
}

/// One connection.
pub(super) struct Session<DB: Database>(DB::Connection);

/// A statement under way, and its session when it is done.
pub(super) type UnderWay<DB> = JoinHandle<(Session<DB>, sqlx::Result<()>)>;

impl<DB: Database> Session<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn open(url: &str) -> sqlx::Result<Session<DB>> {
        Ok(Session(DB::Connection::connect(url).await?))
    }

    /// Runs statements.
    pub(super) async fn run(&mut self, sql: impl Into<String>) -> sqlx::Result<()> {
        self.0.execute(raw_sql(AssertSqlSafe(sql.into()))).await.map(drop)
    }

    /// Ends the session.
    pub(super) async fn close(self) -> sqlx::Result<()> {
        self.0.close().await
    }

    /// Runs a statement apart: it is expected to wait.
    pub(super) fn run_apart(mut self, sql: &'static str) -> UnderWay<DB> {
        tokio::spawn(async move {
            let done = self.run(sql).await;
            (self, done)
        })
    }

    /// Returns the first column of what a statement answers.
    pub(super) async fn all<T>(&mut self, sql: impl Into<String>) -> sqlx::Result<Vec<T>>
    where
        T: for<'r> Decode<'r, DB> + Type<DB>,
    {
        let rows = self.0.fetch_all(raw_sql(AssertSqlSafe(sql.into()))).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    /// Returns the first column of the one row that a statement answers.
    pub(super) async fn one<T>(&mut self, sql: impl Into<String>) -> sqlx::Result<T>
    where
        T: for<'r> Decode<'r, DB> + Type<DB>,
    {
        self.all(sql).await?.pop().ok_or(Error::RowNotFound)
    }
}

impl Session<Postgres> {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.0
    }

    /// Waits until another session waits for a row or a transaction of someone.
    pub(super) async fn until_waiting(&mut self, pid: i32) -> Result<()> {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'"
        );
        let seen = async { until(async || Ok(self.one::<i64>(&waiting).await? == 1)).await };
        seen.await.context("the other session does not wait")
    }

    /// Returns the process of this session.
    pub(super) async fn id(&mut self) -> sqlx::Result<i32> {
        self.one("SELECT pg_backend_pid()").await
    }
}

impl Session<MySql> {
    /// Returns how many rows a statement says that it affected.
    pub(super) async fn count(&mut self, sql: &'static str) -> sqlx::Result<u64> {
        Ok(self.0.execute(raw_sql(sql)).await?.rows_affected())
    }

    pub(super) fn connection(&mut self) -> &mut MySqlConnection {
        &mut self.0
    }

    /// Waits until another session waits for a row of someone.
    pub(super) async fn until_waiting(&mut self, id: u64) -> Result<()> {
        let waits = async || Ok(self.transaction(id).await?.contains("\nLOCK WAIT "));
        until(waits).await.context("the other session does not wait")
    }

    /// Returns how many row locks another session holds.
    pub(super) async fn rows_held(&mut self, id: u64) -> Result<u32> {
        let state = self.transaction(id).await?;
        let line = state.lines().find_map(|line| line.split_once(" row lock(s)"));
        let count = line.and_then(|(before, _)| before.rsplit([' ', ',']).next());
        count.context("no transaction is shown")?.parse().context("a count")
    }

    /// Returns the number of the transaction that another session has open.
    pub(super) async fn transaction_of(&mut self, id: u64) -> Result<Option<u64>> {
        let state = self.transaction(id).await?;
        let number = state.split(',').next().map(str::trim).filter(|number| !number.is_empty());
        number.map(|number| number.parse().context("a number")).transpose()
    }

    /// Returns the id of this session.
    pub(super) async fn id(&mut self) -> sqlx::Result<u64> {
        self.one("SELECT CONNECTION_ID()").await
    }

    /// Reads InnoDB's own report, for `innodb_trx` is a copy that frequent reading keeps old.
    async fn transaction(&mut self, id: u64) -> Result<String> {
        let rows = self.0.fetch_all(raw_sql("SHOW ENGINE INNODB STATUS")).await?;
        let report: String = rows.first().context("no report")?.try_get(2)?;
        let thread = format!(" thread id {id},");
        let mut transactions = report.split("---TRANSACTION").skip(1);
        Ok(transactions.find(|one| one.contains(&thread)).unwrap_or_default().to_owned())
    }
}

/// Asks until something is so.
pub(super) async fn until(mut fact: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let ask = async {
        while !fact().await? {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, ask).await.context("it did not come true")?
}

/// Returns the number of a refusal by MySQL or MariaDB; 0 when there was none.
pub(super) fn number<T>(answer: sqlx::Result<T>) -> Result<u16> {
    match answer {
        Ok(_) => Ok(0),
        Err(Error::Database(error)) => Ok(error.downcast::<MySqlDatabaseError>().number()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the SQLSTATE of a refusal by PostgreSQL; nothing when there was none.
pub(super) fn state<T>(answer: sqlx::Result<T>) -> Result<String> {
    match answer {
        Ok(_) => Ok(String::new()),
        Err(Error::Database(error)) => Ok(error.code().unwrap_or_default().into_owned()),
        Err(error) => Err(error.into()),
    }
}
