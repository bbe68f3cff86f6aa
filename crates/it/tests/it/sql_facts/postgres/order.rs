//! Numbers of a sequence against the order of commits.

use anyhow::Result;
use sqlx::Postgres;

use crate::sql_facts::home::{Home, Session, until};

facts!(on_postgres: [
    a_cursor_over_a_sequence_loses_the_row_that_commits_late,
    the_horizon_of_the_snapshot_waits_for_the_row_that_commits_late,
    the_horizon_of_the_snapshot_waits_for_a_prepared_transaction,
]);

const PUT: &str = "INSERT INTO event DEFAULT VALUES";

/// Reads what lies before the horizon.
const SETTLED: &str = "SELECT seq FROM event
    WHERE tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY seq";

/// Opens a table of events and leaves the first of two transactions open.
async fn late(home: &Home) -> Result<(Session<Postgres>, Session<Postgres>)> {
    let (mut late, mut early) = (home.postgres().await?, home.postgres().await?);
    let table = "CREATE TABLE event (tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)";
    late.run(table).await?;
    late.run("BEGIN").await?;
    late.run(PUT).await?;
    early.run(PUT).await?;
    Ok((late, early))
}

/// Rule: rows are claimed by being there; a floor moves only past what can no longer appear.
async fn a_cursor_over_a_sequence_loses_the_row_that_commits_late(home: &Home) -> Result<()> {
    let (mut late, mut reader) = late(home).await?;
    let cursor = reader.one::<i64>("SELECT max(seq) FROM event").await?;
    assert_eq!(cursor, 2);
    late.run("COMMIT").await?;
    let next = format!("SELECT seq FROM event WHERE seq > {cursor}");
    assert_eq!(reader.all::<i64>(next).await?, [0; 0]);
    assert_eq!(reader.all::<i64>("SELECT seq FROM event ORDER BY seq").await?, [1, 2]);
    Ok(())
}

/// Rule: the floor follows `pg_snapshot_xmin`.
async fn the_horizon_of_the_snapshot_waits_for_the_row_that_commits_late(
    home: &Home,
) -> Result<()> {
    let (mut late, mut reader) = late(home).await?;
    assert_eq!(reader.all::<i64>(SETTLED).await?, [0; 0]);
    late.run("COMMIT").await?;
    // Any transaction of any database holds the horizon back, so it may take a while.
    until(async || Ok(reader.all::<i64>(SETTLED).await? == [1, 2])).await
}

/// Rule: the same.
async fn the_horizon_of_the_snapshot_waits_for_a_prepared_transaction(home: &Home) -> Result<()> {
    let (mut late, mut reader) = late(home).await?;
    let name = reader.one::<String>("SELECT current_database()::text").await?;
    late.run(format!("PREPARE TRANSACTION '{name}'")).await?;
    late.close().await?;
    assert_eq!(reader.all::<i64>(SETTLED).await?, [0; 0]);
    reader.run(format!("COMMIT PREPARED '{name}'")).await?;
    until(async || Ok(reader.all::<i64>(SETTLED).await? == [1, 2])).await
}
