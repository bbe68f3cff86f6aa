//! SQLite, as it is built into the program.

use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{ConnectOptions, Executor};
use tempfile::TempDir;

/// Far more than a test takes: whoever waits for a busy file is seen to wait.
const PATIENCE: Duration = Duration::from_secs(600);

async fn open(folder: &TempDir) -> sqlx::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(folder.path().join("facts.db"));
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    options.busy_timeout(PATIENCE).connect().await
}

/// Rule: every writing transaction is BEGIN IMMEDIATE.
#[tokio::test]
async fn a_reader_that_turns_writer_is_refused_at_once_whatever_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(&folder).await.unwrap(), open(&folder).await.unwrap());
    one.execute("CREATE TABLE event (id INTEGER PRIMARY KEY)").await.unwrap();
    one.execute("BEGIN").await.unwrap();
    one.fetch_all("SELECT count(*) FROM event").await.unwrap();
    other.execute("INSERT INTO event VALUES (1)").await.unwrap();
    let began = Instant::now();
    let refused = one.execute("INSERT INTO event VALUES (2)").await.unwrap_err();
    let code = refused.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("517"), "BUSY_SNAPSHOT");
    assert!(began.elapsed() < PATIENCE / 2, "it waited");
}

/// Rule: the hot table is AUTOINCREMENT, for a floor must not pass a number that comes again.
#[tokio::test]
async fn the_newest_number_is_given_again_unless_the_table_is_autoincrement() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = open(&folder).await.unwrap();
    let mut second = Vec::new();
    for kind in ["", "AUTOINCREMENT"] {
        let table = format!(
            "CREATE TABLE event{kind} (id INTEGER PRIMARY KEY {kind}, n INT);
             INSERT INTO event{kind} (n) VALUES (1); DELETE FROM event{kind};
             INSERT INTO event{kind} (n) VALUES (2)"
        );
        session.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(table))).await.unwrap();
        let id = sqlx::AssertSqlSafe(format!("SELECT id FROM event{kind}"));
        let id: i64 = sqlx::query_scalar(id).fetch_one(&mut session).await.unwrap();
        second.push(id);
    }
    assert_eq!(second, [1, 2]);
}
