//! The database of a run: what differs from one to the next, and nothing else. Statements go out
//! as they are written, never prepared, as from a shell.

mod postgres;
mod sqlite;

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::world::need;

/// How a row of an outbox was changed: who did it, where the database can tell, and who held the
/// lease of the row's shard at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Of which event. `None` if it is the lease itself.
    pub(super) id: Option<String>,
    /// Which relay changed it.
    pub(super) relay: Option<String>,
    /// Which owner the lease named.
    pub(super) owner: String,
}

/// How producers speak to a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// How many work at once.
    pub(super) producers: usize,
    /// How a transaction begins that will write.
    pub(super) begin: &'static str,
    /// Whether a transaction can be prepared in one session and committed in another.
    pub(super) two_phase: bool,
    /// What the server says to a producer that has waited for a relay. `None` where there is one
    /// writer at a time, and waiting is the rule.
    pub(super) waited: Option<&'static str>,
}

/// One connection.
#[async_trait]
pub(super) trait Session: Send {
    /// Runs statements.
    async fn run(&mut self, sql: &str) -> Result<()>;
    /// Runs a query whose columns are all texts.
    async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>>;
}

/// An empty outbox in a database of its own, which writes down every change of a row.
#[async_trait]
pub(super) trait Home: Send + Sync {
    /// Says which version the server has.
    fn version(&self) -> String;
    /// Says where the server listens, if there is one.
    fn address(&self) -> Option<SocketAddr>;
    /// Says how producers speak to it.
    fn manners(&self) -> Manners;
    /// Opens a producer's connection.
    async fn producer(&self) -> Result<Box<dyn Session>>;
    /// Opens a connection that looks on.
    async fn onlooker(&self) -> Result<Box<dyn Session>>;
    /// Returns the url with which one relay connects, under an account of its own where that tells
    /// who changed a row.
    async fn account(&self, relay: &str) -> Result<String>;
    /// Returns the query that shows which producers wait at this moment, and for which relay.
    fn waiting(&self) -> Option<&str>;
    /// Leaves nothing behind.
    async fn leave(&self) -> Result<()>;
}

/// Makes one on a server of the world, or in a file.
pub(super) async fn make(name: &str) -> Result<Box<dyn Home>> {
    if name == "sqlite" {
        return Ok(Box::new(sqlite::File::make().await?));
    }
    let server = need(name);
    let scheme = server.detail("url").split(':').next().context("a url has a scheme")?;
    match scheme {
        "postgres" => Ok(Box::new(postgres::Database::make(&server).await?)),
        other => bail!("{name}: no chaos is set up for {other}:// yet"),
    }
}

/// Reads every change, in the order in which they were made.
pub(super) async fn changes(session: &mut dyn Session) -> Result<Vec<Change>> {
    let sql = "SELECT event_id, relay, owner FROM chaos_change ORDER BY number";
    let rows = session.rows(sql).await?.into_iter();
    let change = |row: Vec<Option<String>>| {
        let [id, relay, owner] = <[_; 3]>::try_from(row).ok()?;
        Some(Change { id, relay, owner: owner? })
    };
    rows.map(|row| change(row).context("a change has three columns")).collect()
}

/// Returns as much of a statement as one recognises it by.
fn begin(sql: &str) -> String {
    sql.trim_start().chars().take(60).collect()
}

macro_rules! session {
    ($connection:ty) => {
        #[async_trait]
        impl Session for $connection {
            async fn run(&mut self, sql: &str) -> Result<()> {
                let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *self).await;
                done.map(drop).with_context(|| begin(sql))
            }

            async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
                use sqlx::Row;
                let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *self).await;
                let rows = rows.with_context(|| begin(sql))?;
                let texts =
                    |row: &<<Self as sqlx::Connection>::Database as sqlx::Database>::Row| {
                        (0..row.len()).map(|column| row.try_get(column)).collect()
                    };
                Ok(rows.iter().map(texts).collect::<sqlx::Result<_>>()?)
            }
        }
    };
}

session!(sqlx::PgConnection);
session!(sqlx::SqliteConnection);
