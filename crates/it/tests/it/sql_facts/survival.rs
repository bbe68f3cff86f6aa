//! What the settings of the world's servers keep when a server is killed.

use anyhow::{Context, Result};
use sqlx::{ColumnIndex, Database, Decode, Executor, MySql, Postgres, Type};

use super::home::{Session, until};
use crate::instance::Instance;

/// How many rows are acknowledged before the kill.
const ROWS: i64 = 200;

/// Rule: tests that kill a server count every acknowledged commit, and miss none.
async fn what_was_acknowledged_is_there_after_a_kill<DB: Database>(server: &str) -> Result<()>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
    i64: for<'r> Decode<'r, DB> + Type<DB>,
{
    let mut instance = Instance::start(server)?;
    let mut session = reach::<DB>(&mut instance).await?;
    session.run("CREATE TABLE kept (id INT PRIMARY KEY)").await?;
    for id in 0..ROWS {
        session.run(format!("INSERT INTO kept VALUES ({id})")).await?;
    }
    instance.kill()?;
    let gone = session.run("INSERT INTO kept VALUES (-1)").await;
    assert!(gone.is_err(), "the server was to be dead");
    instance.revive()?;
    let mut session = reach::<DB>(&mut instance).await?;
    assert_eq!(session.one::<i64>("SELECT COUNT(*) FROM kept WHERE id >= 0").await?, ROWS);
    Ok(())
}

/// Connects as soon as the server lets anyone.
async fn reach<DB: Database>(instance: &mut Instance) -> Result<Session<DB>>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    let mut open = None;
    until(async || {
        instance.lives()?;
        open = Session::open(&instance.url).await.ok();
        Ok(open.is_some())
    })
    .await?;
    open.context("no session")
}

#[tokio::test]
async fn postgres_13_keeps_acknowledged_commits_when_killed() {
    what_was_acknowledged_is_there_after_a_kill::<Postgres>("postgres-13").await.unwrap();
}

#[tokio::test]
async fn postgres_15_keeps_acknowledged_commits_when_killed() {
    what_was_acknowledged_is_there_after_a_kill::<Postgres>("postgres").await.unwrap();
}

#[tokio::test]
async fn postgres_18_keeps_acknowledged_commits_when_killed() {
    what_was_acknowledged_is_there_after_a_kill::<Postgres>("postgres-18").await.unwrap();
}

#[tokio::test]
async fn mysql_keeps_acknowledged_commits_when_killed() {
    what_was_acknowledged_is_there_after_a_kill::<MySql>("mysql").await.unwrap();
}

#[tokio::test]
async fn mariadb_keeps_acknowledged_commits_when_killed() {
    what_was_acknowledged_is_there_after_a_kill::<MySql>("mariadb").await.unwrap();
}

#[tokio::test]
async fn mariadb_10_5_keeps_acknowledged_commits_when_killed() {
    what_was_acknowledged_is_there_after_a_kill::<MySql>("mariadb-10.5").await.unwrap();
}
