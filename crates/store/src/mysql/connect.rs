//! How a connection is made: which settings, verified, and which servers are refused.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Millis, StoreError};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, MySqlConnection, Row};

use super::error::{denied, judge, number, yields};
use super::{MySql, rows};
use crate::outbox::ENCODE;
use crate::server::{Commit, Connects, Fault, Identity, Scope, broken, down};

/// How long a server may take to let us in.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many statements a session keeps prepared. Work of one kind takes 25, a mix of every kind and
/// size a hundred, and a server has 16,382 for all its sessions.
const PREPARED: usize = 100;

/// What every connection is set to, how it is asked for, and the answer. A session that idles in a
/// transaction, as that of a stopped process does, keeps others waiting; MySQL knows only one limit
/// for all sessions that idle, so it is short.
const SETTINGS: [(&str, &str, &str); 7] = [
    ("autocommit = 1", "IF(@@SESSION.autocommit, 'on', 'off')", "on"),
    ("time_zone = '+00:00'", "@@SESSION.time_zone", "+00:00"),
    ("innodb_lock_wait_timeout = 5", "@@SESSION.innodb_lock_wait_timeout", "5"),
    ("lock_wait_timeout = 10", "@@SESSION.lock_wait_timeout", "10"),
    ("wait_timeout = 5", "@@SESSION.wait_timeout", "5"),
    (
        "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        "@@SESSION.sql_mode",
        "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
    ),
    ("character_set_connection = utf8mb4", "@@SESSION.character_set_connection", "utf8mb4"),
];

/// The kinds of server that the statements were made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    MySql,
    MariaDb,
}

impl Kind {
    pub(super) fn of(version: &str) -> Kind {
        if version.contains("MariaDB") { Kind::MariaDb } else { Kind::MySql }
    }

    /// Returns what the server calls the isolation of a session.
    fn isolation(self) -> &'static str {
        match self {
            Kind::MySql => "@@SESSION.transaction_isolation",
            Kind::MariaDb => "@@SESSION.tx_isolation",
        }
    }

    /// Returns how a session limits the time of a statement to ten seconds, as [`SETTINGS`] does:
    /// of a read, that is, where the server knows no limit for writes.
    fn limit(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::MySql => ("max_execution_time = 10000", "@@SESSION.max_execution_time", "10000"),
            Kind::MariaDb => {
                ("max_statement_time = 10", "@@SESSION.max_statement_time", "10.000000")
            }
        }
    }
}

/// Reads the address.
pub(super) fn options(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    let refuse = |detail: String| StoreError::Broken(Cause::new(Code::ConfigInvalid, detail));
    let options = MySqlConnectOptions::from_str(url)
        .map_err(|error| refuse(format!("no MySQL or MariaDB address: {error}; {ENCODE}")))?;
    if options.get_database().is_none() {
        return Err(refuse(
            "the database is missing at the end of the url, as in mysql://host/db".into(),
        ));
    }
    let options = options.charset("utf8mb4").pipes_as_concat(false).timezone(None);
    Ok(options.statement_cache_capacity(PREPARED).disable_statement_logging())
}

/// Says which database an address leads to, whoever asks for it.
pub(crate) fn home(url: &str) -> Result<String, StoreError> {
    let options = options(url)?;
    let database = options.get_database().unwrap_or_default();
    Ok(format!("{}:{}/{database}", options.get_host(), options.get_port()))
}

#[async_trait]
impl Connects for MySql {
    type Conn = MySqlConnection;
    const NAME: &'static str = "MySQL or MariaDB";
    const IDLE: Duration = Duration::from_secs(2);

    /// Commits are as sure as the server makes all of them: a session cannot choose.
    async fn connect(&self, _: Commit) -> Result<(MySqlConnection, Identity), Fault> {
        let connecting = tokio::time::timeout(PATIENCE, async {
            let conn = self.options.connect().await;
            let mut conn = conn.map_err(|error| unreached(&self.options, error))?;
            let server = prepare(&mut conn, self.skips).await?;
            Ok((conn, server))
        });
        connecting.await.unwrap_or_else(|_| Err(silent(&self.options)))
    }

    async fn clock(&self, conn: &mut MySqlConnection, now: Option<i64>) -> Result<Millis, Fault> {
        Ok(Millis(rows::int(&self.sql.clock.ask().give(now).one(conn).await?, 0)?))
    }

    async fn begin(conn: &mut MySqlConnection, scope: Scope) -> Result<(), Fault> {
        let begin = match scope {
            Scope::Statement | Scope::Transaction => "START TRANSACTION",
            Scope::Moment => {
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                 START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
            }
        };
        sqlx::raw_sql(begin).execute(conn).await?;
        Ok(())
    }

    async fn commit(conn: &mut MySqlConnection) -> Result<(), Fault> {
        sqlx::raw_sql("COMMIT").execute(conn).await?;
        Ok(())
    }

    async fn roll_back(conn: &mut MySqlConnection) -> Result<(), Fault> {
        sqlx::raw_sql("ROLLBACK").execute(conn).await?;
        Ok(())
    }

    async fn hang_up(conn: MySqlConnection) {
        // The server ends the session either way.
        let _ = conn.close().await;
    }

    fn yields(error: &sqlx::Error) -> bool {
        yields(error)
    }

    fn undone(error: &sqlx::Error) -> bool {
        number(error).is_some() && judge(error).cause().code == Code::StoreBusy
    }

    fn denied(error: &sqlx::Error) -> bool {
        denied(error)
    }

    fn judge(error: &sqlx::Error) -> StoreError {
        judge(error)
    }
}

/// Says where nobody answers.
fn unreached(options: &MySqlConnectOptions, error: sqlx::Error) -> Fault {
    let sqlx::Error::Io(error) = error else { return error.into() };
    let (host, port) = (options.get_host(), options.get_port());
    down(format!("no MySQL or MariaDB server answers at {host}:{port}: {error}"))
}

/// Says where somebody answers who may be somebody else: others wait for us to speak first.
fn silent(options: &MySqlConnectOptions) -> Fault {
    let (host, port) = (options.get_host(), options.get_port());
    down(format!(
        "the server at {host}:{port} did not let us in within {PATIENCE:?}: is it a MySQL or \
         MariaDB server?"
    ))
}

/// Sets a connection up. Returns which server it is.
async fn prepare(conn: &mut MySqlConnection, skips: bool) -> Result<Identity, Fault> {
    let row = sqlx::raw_sql(
        "SELECT VERSION(), @@version_comment, @@GLOBAL.read_only + 0, \
         CONCAT_WS(' ', @@server_id, @@hostname, @@port), UNIX_TIMESTAMP()",
    );
    let row = row.fetch_one(&mut *conn).await?;
    let (version, comment): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let (name, now): (String, i64) = (row.try_get(3)?, row.try_get(4)?);
    let uptime = sqlx::raw_sql("SHOW GLOBAL STATUS LIKE 'Uptime'").fetch_one(&mut *conn).await?;
    let uptime: i64 = uptime.try_get::<String, _>(1)?.parse().unwrap_or(0);
    let server = Identity { name, started: now - uptime };
    refuse(&version, &comment, row.try_get::<i64, _>(2)? != 0)?;
    if skips && !skips_locked(&version) {
        let detail = format!(
            "strategy skip_locked: {version} has no SKIP LOCKED, which came with MariaDB 10.6; \
             take own, cas or preempt"
        );
        return Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)).into());
    }
    let kind = Kind::of(&version);
    let settings: Vec<_> = SETTINGS.into_iter().chain([kind.limit()]).collect();
    let set: Vec<String> = settings.iter().map(|(set, ..)| format!("SESSION {set}")).collect();
    let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    let set = format!("{isolation}; SET {}", set.join(", "));
    sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut *conn).await?;
    let read = std::iter::once((kind.isolation(), "READ-COMMITTED"));
    let read: Vec<_> = read.chain(settings.iter().map(|(_, ask, now)| (*ask, *now))).collect();
    let asked: Vec<String> = read.iter().map(|(ask, _)| format!("CAST({ask} AS CHAR)")).collect();
    let asked = format!("SELECT {}", asked.join(", "));
    let row = sqlx::raw_sql(AssertSqlSafe(asked)).fetch_one(conn).await?;
    for (at, (name, wanted)) in read.into_iter().enumerate() {
        let now: String = row.try_get(at)?;
        if now != wanted {
            let detail = format!("the server keeps {name} at {now} though {wanted} was asked for");
            return Err(broken(detail));
        }
    }
    Ok(server)
}

/// Tells whether a server can pass over rows that another has open.
pub(super) fn skips_locked(version: &str) -> bool {
    Kind::of(version) == Kind::MySql || numbers(version) >= [10, 6, 0]
}

/// Reads the numbers of a version. MariaDB may write 5.5.5- before its own, for old clients.
fn numbers(version: &str) -> [u32; 3] {
    let number = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = number.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    std::array::from_fn(|_| parts.next().flatten().unwrap_or(0))
}

/// Refuses what is too old, only looks like one of the family, or cannot be written to now.
fn refuse(version: &str, comment: &str, reads_only: bool) -> Result<(), StoreError> {
    let broken = |detail: String| Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)));
    for foreign in ["TiDB", "OceanBase", "Vitess", "SingleStore", "MemSQL", "StarRocks", "Doris"] {
        let says = |text: &str| text.to_lowercase().contains(&foreign.to_lowercase());
        if says(version) || says(comment) {
            let detail =
                format!("{foreign} is not MySQL: an outbox needs InnoDB's order and locks");
            return broken(detail);
        }
    }
    let (oldest, name) = match Kind::of(version) {
        Kind::MySql => ([8, 0, 16], "MySQL 8.0.16"),
        Kind::MariaDb => ([10, 5, 0], "MariaDB 10.5"),
    };
    if numbers(version) < oldest {
        return broken(format!("{version} is too old; an outbox needs {name} or newer"));
    }
    if reads_only {
        let detail = "the server is read-only and cannot be written to";
        return Err(StoreError::Down(Cause::new(Code::StoreDown, detail)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_old_or_foreign_is_refused_and_a_replica_may_be_asked_again() {
        for good in ["9.7.4", "8.0.16", "8.4.0-log", "10.5.29-MariaDB-0+deb11u1"] {
            refuse(good, "", false).unwrap();
        }
        refuse("5.5.5-10.11.19-MariaDB", "", false).unwrap();
        let replica = refuse("9.7.4", "", true).unwrap_err();
        assert!(matches!(replica, StoreError::Down(_)), "{replica}");
        for (version, comment) in [
            ("5.7.44", ""),
            ("8.0.15", ""),
            ("10.4.34-MariaDB", ""),
            ("8.0.11-TiDB-v8.5.0", ""),
            ("5.7.25", "OceanBase 4.3"),
            ("8.0.30", "vitess"),
        ] {
            let broken = refuse(version, comment, false).unwrap_err();
            assert!(matches!(broken, StoreError::Broken(_)), "{broken}");
        }
    }

    #[test]
    fn a_server_says_whether_it_can_pass_over_open_rows() {
        for (version, skips) in [
            ("8.0.16", true),
            ("10.5.29-MariaDB", false),
            ("5.5.5-10.5.29-MariaDB", false),
            ("10.6.0-MariaDB", true),
            ("5.5.5-11.8.9-MariaDB", true),
        ] {
            assert_eq!(skips_locked(version), skips, "{version}");
        }
    }

    #[test]
    fn an_address_must_be_one_and_name_a_database() {
        assert_eq!(home("mysql://me:canary@127.0.0.1/orders").unwrap(), "127.0.0.1:3306/orders");
        assert_eq!(home("mariadb://127.0.0.1:3307/orders").unwrap(), "127.0.0.1:3307/orders");
        for bad in ["mysql://me@127.0.0.1:no/orders", "mysql://me@127.0.0.1"] {
            home(bad).unwrap_err();
        }
        let said = home("mysql://me:canary/@127.0.0.1/orders").unwrap_err().to_string();
        assert!(said.contains("percent-encoded (`%2F`)") && !said.contains("canary"), "{said}");
        let said = home("mysql://me@127.0.0.1").unwrap_err().to_string();
        assert!(said.contains("the database is missing at the end of the url"), "{said}");
    }

    #[test]
    fn a_server_that_waits_may_be_of_another_kind() {
        let said = silent(&options("mysql://me@127.0.0.1:5432/orders").unwrap()).to_string();
        assert!(said.contains("127.0.0.1:5432 did not let us in within 10s"), "{said}");
        assert!(said.contains("is it a MySQL or MariaDB server?"), "{said}");
    }
}
