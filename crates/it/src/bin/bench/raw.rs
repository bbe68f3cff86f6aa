//! The bare loop: the store's own statements and settings on one connection, and nothing around
//! them.

use std::time::Instant;

use anyhow::{Result, ensure};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};

const READ: &str = include_str!("../../../../store/sql/sqlite/claim_hot.sql");
const KEEP: &str = include_str!("../../../../store/sql/sqlite/done_hot.sql");
const DROP: &str = include_str!("../../../../store/sql/sqlite/drop_hot.sql");

/// Drains a file. Returns rows per second.
pub(crate) async fn drain(url: &str, events: usize, history: bool, batch: usize) -> Result<f64> {
    let mut connection = url
        .parse::<SqliteConnectOptions>()?
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("wal_autocheckpoint", "4000")
        .pragma("temp_store", "memory")
        .disable_statement_logging()
        .connect()
        .await?;
    let [read, keep, drop] = [READ, KEEP, DROP].map(|sql| sql.replace("{outbox}", "outbox"));
    let (mut cursor, mut drained, mut bytes) = (0i64, 0, 0);
    let start = Instant::now();
    while drained < events {
        let rows = sqlx::query(AssertSqlSafe(read.as_str()))
            .bind(cursor)
            .bind(i64::try_from(batch)?)
            .fetch_all(&mut connection)
            .await?;
        ensure!(!rows.is_empty(), "{drained} of {events} rows were there");
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            cursor = row.try_get("seq")?;
            numbers.push(cursor);
            for column in ["event_id", "topic", "event_type", "biz_key", "payload", "headers"] {
                bytes += row.try_get::<Option<String>, _>(column)?.map_or(0, |text| text.len());
            }
        }
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        if history {
            let kept = numbers.iter().map(|number| (number, None::<&str>)).collect::<Vec<_>>();
            sqlx::query(AssertSqlSafe(keep.as_str()))
                .bind(serde_json::to_string(&kept)?)
                .bind(0i64)
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query(AssertSqlSafe(drop.as_str()))
            .bind(serde_json::to_string(&numbers)?)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        drained += rows.len();
    }
    let rate = events as f64 / start.elapsed().as_secs_f64();
    ensure!(bytes > events * 300, "the rows were read");
    connection.close().await?;
    Ok(rate)
}
