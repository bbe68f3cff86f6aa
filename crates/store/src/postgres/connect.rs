//! How a connection is made: which settings, verified, and which servers are refused.
//!
//! The settings come with the first word of a session. Asked for later, they would outlive it
//! behind a pooler, in a session of somebody else's whose commits then wait for no disk.
//!
//! A commit first asks something, because PostgreSQL answers the commit of an aborted transaction
//! with a rollback and no error.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, Millis, StoreError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row};

use super::Postgres;
use super::error::{denied, judge, undone, yields};
use crate::outbox::ENCODE;
use crate::server::{Commit, Connects, Fault, Identity, Scope, broken, down};

/// How long a server may take to let us in.
const PATIENCE: Duration = Duration::from_secs(10);
/// The oldest version that has what the statements need.
const OLDEST: i32 = 130_000;

/// What every session is set to. A plan that was right for an empty table must be right for a full
/// one, so plans are made once and only from indexes.
const SETTINGS: [(&str, &str); 12] = [
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("statement_timeout", "10s"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "5s"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_sort", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];
/// What a session is set to whose commits wait for no disk. Others wait as the server says.
const QUICK: (&str, &str) = ("synchronous_commit", "off");

/// Reads the address.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let refuse = |detail: String| StoreError::Broken(Cause::new(Code::ConfigInvalid, detail));
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| refuse(format!("no PostgreSQL address: {error}; {ENCODE}")))?;
    if options.get_database().is_none() {
        return Err(refuse(
            "the database is missing at the end of the url, as in postgres://host/db".into(),
        ));
    }
    Ok(options.application_name("postbox").disable_statement_logging())
}

/// Says which database an address leads to, whoever asks for it.
pub(crate) fn home(url: &str) -> Result<String, StoreError> {
    let options = options(url)?;
    let database = options.get_database().unwrap_or_default();
    Ok(format!("{}:{}/{database}", options.get_host(), options.get_port()))
}

#[async_trait]
impl Connects for Postgres {
    type Conn = PgConnection;
    const NAME: &'static str = "PostgreSQL";
    const IDLE: Duration = Duration::from_secs(300);

    async fn connect(&self, commit: Commit) -> Result<(PgConnection, Identity), Fault> {
        connect(&self.options, commit).await
    }

    async fn clock(&self, conn: &mut PgConnection, now: Option<i64>) -> Result<Millis, Fault> {
        let row = self.sql.clock.query().bind(now).fetch_one(conn).await?;
        Ok(Millis(row.try_get(0)?))
    }

    async fn begin(conn: &mut PgConnection, scope: Scope) -> Result<(), Fault> {
        let begin = match scope {
            Scope::Statement | Scope::Transaction => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Scope::Moment => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        sqlx::raw_sql(begin).execute(conn).await?;
        Ok(())
    }

    async fn commit(conn: &mut PgConnection) -> Result<(), Fault> {
        sqlx::raw_sql("SELECT 1; COMMIT").execute(conn).await?;
        Ok(())
    }

    async fn roll_back(conn: &mut PgConnection) -> Result<(), Fault> {
        sqlx::raw_sql("ROLLBACK").execute(conn).await?;
        Ok(())
    }

    async fn hang_up(conn: PgConnection) {
        // The server ends the session either way.
        let _ = conn.close().await;
    }

    fn yields(error: &sqlx::Error) -> bool {
        yields(error)
    }

    fn undone(error: &sqlx::Error) -> bool {
        undone(error)
    }

    fn denied(error: &sqlx::Error) -> bool {
        denied(error)
    }

    fn judge(error: &sqlx::Error) -> StoreError {
        judge(error)
    }
}

/// Connects, sets the connection up, and refuses a server that cannot be written to.
async fn connect(
    options: &PgConnectOptions,
    commit: Commit,
) -> Result<(PgConnection, Identity), Fault> {
    let connecting = tokio::time::timeout(PATIENCE, async {
        let settings: Vec<_> = match commit {
            Commit::Quick => SETTINGS.into_iter().chain([QUICK]).collect(),
            Commit::Sure => SETTINGS.to_vec(),
        };
        // Behind what the address asks for, so that they prevail.
        let asked = options.clone().options(settings.iter().copied());
        let mut conn = asked.connect().await.map_err(|error| unreached(options, error))?;
        verify(&mut conn, &settings).await?;
        let server = identity(&mut conn).await?;
        Ok((conn, server))
    });
    connecting
        .await
        .unwrap_or_else(|_| Err(down(format!("the server did not let us in within {PATIENCE:?}"))))
}

/// Says where nobody answers.
fn unreached(options: &PgConnectOptions, error: sqlx::Error) -> Fault {
    let (host, port) = (options.get_host(), options.get_port());
    // What a server of another kind says first.
    let foreign = ["unexpected response from SSLRequest", "unknown "];
    match error {
        sqlx::Error::Io(error) => {
            down(format!("no PostgreSQL server answers at {host}:{port}: {error}"))
        }
        sqlx::Error::Protocol(said) if foreign.iter().any(|it| said.starts_with(it)) => {
            down(format!("what answers at {host}:{port} is no PostgreSQL server"))
        }
        error => error.into(),
    }
}

/// Reads which server it is: by its start, and by its statistics, which it throws away when one of
/// its processes has died and all begin anew; after either, commits that did not wait for the disk
/// may be lost. And by its line of history.
async fn identity(conn: &mut PgConnection) -> Result<Identity, Fault> {
    let start = "SELECT extract(epoch FROM pg_postmaster_start_time())::bigint";
    let row = sqlx::query(start).persistent(false).fetch_one(&mut *conn).await?;
    let started: i64 = row.try_get(0)?;
    let line = told(conn, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)").await?;
    // Before PostgreSQL 15 a process of its own tells it, which may not answer.
    let since = "SET LOCAL statement_timeout = '2s'; \
                 SELECT coalesce(extract(epoch FROM stats_reset)::text, '') FROM pg_stat_bgwriter";
    let since = told(conn, since).await?;
    Ok(Identity { name: format!("{line} {since}"), started })
}

/// Reads what a service may not be allowed to tell, or not know.
async fn told(conn: &mut PgConnection, ask: &'static str) -> Result<String, Fault> {
    match sqlx::raw_sql(ask).fetch_one(conn).await {
        Ok(row) => Ok(row.try_get(0)?),
        Err(sqlx::Error::Database(error))
            if matches!(
                error.code().as_deref(),
                Some("42501" | "42883" | "42P01" | "0A000" | "57014")
            ) =>
        {
            Ok(String::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a server that no outbox works with, and one that keeps a session otherwise than asked.
async fn verify(conn: &mut PgConnection, settings: &[(&str, &str)]) -> Result<(), Fault> {
    let row = sqlx::query(
        "SELECT current_setting('server_version_num')::int, version(), pg_is_in_recovery(), \
         ARRAY(SELECT current_setting(name) FROM unnest($1::text[]) \
         WITH ORDINALITY AS asked (name, place) ORDER BY place)",
    );
    let names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
    let row = row.persistent(false).bind(names).fetch_one(conn).await?;
    refuse(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?;
    let kept: Vec<String> = row.try_get(3)?;
    for ((name, wanted), now) in settings.iter().zip(kept) {
        if now != *wanted {
            return Err(broken(format!(
                "the server keeps {name} at {now} though {wanted} was asked for; the relay needs \
                 sessions of its own: a pooler in between must be gone around"
            )));
        }
    }
    Ok(())
}

/// Refuses what is too old, only looks like PostgreSQL, or cannot be written to now.
fn refuse(number: i32, version: &str, standby: bool) -> Result<(), StoreError> {
    let broken = |detail: String| Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)));
    if let Some(kind) = ["CockroachDB", "Yugabyte", "-YB-"].iter().find(|it| version.contains(**it))
    {
        return broken(format!("{kind} numbers rows out of order, and an outbox needs the order"));
    }
    if number < OLDEST {
        return broken(format!("{version} is too old; an outbox needs PostgreSQL 13 or newer"));
    }
    if standby {
        let detail = "the server is a standby and cannot be written to";
        return Err(StoreError::Down(Cause::new(Code::StoreDown, detail)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_server_that_is_old_or_foreign_is_refused_and_a_standby_may_be_asked_again() {
        refuse(150_020, "PostgreSQL 15.20 on x86_64", false).unwrap();
        let standby = refuse(150_020, "PostgreSQL 15.20", true).unwrap_err();
        assert!(matches!(standby, StoreError::Down(_)), "{standby}");
        for (number, version) in [(120_000, "PostgreSQL 12"), (150_000, "CockroachDB CCL v24")] {
            let broken = refuse(number, version, false).unwrap_err();
            assert!(matches!(broken, StoreError::Broken(_)), "{broken}");
        }
    }

    #[test]
    fn an_address_must_be_one_and_name_a_database() {
        options("postgres://me@127.0.0.1:5432/orders").unwrap();
        let said = options("postgres://me:canary/@127.0.0.1/orders").unwrap_err().to_string();
        assert!(said.contains("percent-encoded (`%2F`)") && !said.contains("canary"), "{said}");
        let said = options("postgres://me@127.0.0.1").unwrap_err().to_string();
        assert!(said.contains("the database is missing at the end of the url"), "{said}");
    }

    /// Answers one session with these bytes, once it has spoken.
    fn answers(bytes: impl Into<Vec<u8>>) -> (std::thread::JoinHandle<TcpStream>, u16) {
        let (listener, bytes) = (TcpListener::bind("127.0.0.1:0").unwrap(), bytes.into());
        let port = listener.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(&bytes).unwrap();
            stream
        });
        (answering, port)
    }

    #[tokio::test]
    async fn a_pooler_that_takes_no_settings_is_refused_with_the_way_around_it() {
        let fields = "SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter in options: jit\0\0";
        let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
        let (answering, port) = answers([b"E", &length[..], fields.as_bytes()].concat());
        let url = format!("postgres://me@127.0.0.1:{port}/orders?sslmode=disable");
        let Err(fault) = connect(&options(&url).unwrap(), Commit::Quick).await else {
            panic!("it was taken")
        };
        let Fault::Sql(error) = fault else { panic!("{fault}") };
        let StoreError::Broken(cause) = judge(&error) else { panic!("{error}") };
        let said = cause.to_string();
        assert!(said.contains("in options: jit") && said.contains("go around"), "{said}");
        answering.join().unwrap();
    }

    #[tokio::test]
    async fn a_server_of_another_kind_is_called_that() {
        // How MySQL begins: the length of its greeting.
        let (greeting, port) = answers(*b"K\0\0\0\x0a8.0.40\0");
        let options = options(&format!("postgres://me@127.0.0.1:{port}/orders")).unwrap();
        let Err(fault) = connect(&options, Commit::Sure).await else { panic!("it is no server") };
        let said = fault.to_string();
        let right = format!("what answers at 127.0.0.1:{port} is no PostgreSQL server");
        assert!(said.contains(&right) && !said.contains("SSLRequest"), "{said}");
        greeting.join().unwrap();
    }
}
