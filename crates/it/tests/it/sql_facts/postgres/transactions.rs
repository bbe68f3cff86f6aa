//! What a transaction does after something went wrong in it.

use std::process::Command;

use anyhow::Result;
use sqlx::Connection;

use crate::sql_facts::home::{Home, state};

facts!(on_postgres: [
    a_commit_after_an_error_says_rollback_and_exits_well,
    the_driver_takes_a_commit_after_an_error_as_done_and_the_rows_are_gone,
    a_duplicate_spoils_the_transaction_and_do_nothing_does_not,
]);

/// Rule: after any failed statement the store only rolls back, and never asks for a commit.
async fn a_commit_after_an_error_says_rollback_and_exits_well(home: &Home) -> Result<()> {
    let mut psql = Command::new(home.server.detail("psql"));
    psql.args(["--no-psqlrc", "--dbname", &home.url]);
    for sql in ["BEGIN", "CREATE TABLE gone (id int)", "SELECT 1 / 0", "COMMIT"] {
        psql.args(["--command", sql]);
    }
    let done = psql.output()?;
    assert_eq!(String::from_utf8(done.stdout)?, "BEGIN\nCREATE TABLE\nROLLBACK\n");
    assert!(done.status.success(), "{}", done.status);
    Ok(())
}

/// Rule: the same; the answer of the driver is no proof of a commit.
async fn the_driver_takes_a_commit_after_an_error_as_done_and_the_rows_are_gone(
    home: &Home,
) -> Result<()> {
    let mut session = home.postgres().await?;
    session.run("CREATE TABLE business (id int)").await?;
    let mut transaction = session.connection().begin().await?;
    sqlx::raw_sql("INSERT INTO business VALUES (1)").execute(&mut *transaction).await?;
    let failed = sqlx::raw_sql("SELECT 1 / 0").execute(&mut *transaction).await;
    assert_eq!(state(failed)?, "22012");
    transaction.commit().await?;
    assert_eq!(session.one::<i64>("SELECT count(*) FROM business").await?, 0);
    Ok(())
}

/// Rule: an event is put with ON CONFLICT DO NOTHING, so that a duplicate costs the caller nothing.
async fn a_duplicate_spoils_the_transaction_and_do_nothing_does_not(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    session.run("CREATE TABLE event (id int PRIMARY KEY); INSERT INTO event VALUES (1)").await?;
    session.run("BEGIN").await?;
    assert_eq!(state(session.run("INSERT INTO event VALUES (1)").await)?, "23505");
    assert_eq!(state(session.run("SELECT 1").await)?, "25P02");
    session.run("ROLLBACK; BEGIN").await?;
    let put = "INSERT INTO event VALUES (1) ON CONFLICT DO NOTHING RETURNING id";
    assert_eq!(session.all::<i32>(put).await?, [0; 0]);
    assert_eq!(session.one::<i32>("SELECT 2").await?, 2);
    Ok(())
}
