//! The database of a run: what differs from one to the next, and nothing else. Statements go out
//! as they are written, never prepared, as from a shell.

mod mysql;
mod postgres;
mod server;
mod sqlite;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};
use store::Strategy;

use crate::world::need;

/// How a row of an outbox was changed: who did it, where the database can tell, and who held the
/// lease of the row's shard at that moment. Where relays compete for rows, that is who claimed it
/// last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Of which event. `None` if it is the lease itself.
    pub(super) id: Option<String>,
    /// Which relay changed it.
    pub(super) relay: Option<String>,
    /// Which owner the lease or the claim named.
    pub(super) owner: String,
}

/// How producers speak to a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// How many work at once.
    pub(super) producers: usize,
    /// How a transaction begins that will write.
    pub(super) begin: &'static str,
    /// How a transaction is prepared before it commits, where it can be.
    pub(super) two_phase: Option<TwoPhase>,
    /// What the server says to a producer that has waited for a relay, for too long or in vain.
    /// `None` where there is one writer at a time, and waiting is the rule.
    pub(super) waited: Option<&'static [&'static str]>,
}

/// How a transaction commits in two phases: `{name}` is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TwoPhase {
    pub(super) begin: &'static str,
    pub(super) prepare: &'static str,
    pub(super) commit: &'static str,
    /// Gives it up before it is prepared.
    pub(super) undo: &'static [&'static str],
}

/// How producers that wait for a relay are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// Shows who waits at this moment, and for which relay.
    pub(super) sql: &'static str,
    /// How often to look.
    pub(super) every: Duration,
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
    /// Says how producers that wait for a relay are looked for. `None` where waiting is the rule.
    fn watch(&self) -> Option<Watch>;
    /// Says how to ask how many were published by the relays' own count.
    fn counted(&self) -> &'static str {
        "SELECT sum(sent) FROM outbox_tally"
    }
    /// Leaves nothing behind.
    async fn leave(&self) -> Result<()>;
}

/// Makes one on a server of the world, or in a file.
pub(super) async fn make(name: &str, strategy: Strategy) -> Result<Box<dyn Home>> {
    let competes = strategy.competes();
    if name == "sqlite" {
        store::check_strategy("sqlite:orders.sqlite3", strategy)?;
        return Ok(Box::new(sqlite::File::make().await?));
    }
    let server = need(name);
    let words = match scheme(server.detail("url")) {
        "postgres" => postgres::words(competes),
        "mysql" => mysql::words(&server.version, competes),
        other => bail!("{name}: no chaos is set up for {other}://"),
    };
    Ok(Box::new(server::Database::make(&server, words).await?))
}

fn scheme(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}

/// Opens a connection.
pub(super) async fn open(url: &str) -> Result<Box<dyn Session>> {
    Ok(match scheme(url) {
        "postgres" => Box::new(PgConnection::connect(url).await?),
        "mysql" => Box::new(MySqlConnection::connect(url).await?),
        _ => Box::new(SqliteConnection::connect(url).await?),
    })
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
                        (0..row.len()).map(|column| row.try_get_unchecked(column)).collect()
                    };
                Ok(rows.iter().map(texts).collect::<sqlx::Result<_>>()?)
            }
        }
    };
}

session!(PgConnection);
session!(MySqlConnection);
session!(SqliteConnection);
