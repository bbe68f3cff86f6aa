//! What a claim takes, and what it keeps from others.

use anyhow::Result;
use sqlx::MySql;

use crate::sql_facts::home::{Home, Session, number};

facts!(with_skip_locked: [
    a_claim_that_sorts_leaves_nothing_for_the_next,
    a_claim_in_index_order_leaves_the_rest,
    a_claim_of_one_partition_holds_no_more_rows_than_it_takes,
]);

facts!(without_skip_locked: [skip_locked_is_a_syntax_error]);

facts!(on_the_mysql_family: [
    an_update_with_a_limit_waits_and_never_claims_twice,
    a_limit_in_a_subquery_is_refused,
    no_update_returns_its_rows,
]);

/// Opens a session at READ COMMITTED.
async fn committed(home: &Home) -> Result<Session<MySql>> {
    let mut session = home.mysql().await?;
    session.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    Ok(session)
}

/// Opens a session on 200 rows that are due, none of which has an owner.
async fn queue(home: &Home) -> Result<Session<MySql>> {
    let mut session = committed(home).await?;
    let table = "CREATE TABLE queue (id INT PRIMARY KEY, owner INT NOT NULL DEFAULT 0,
        status INT NOT NULL, next_at INT NOT NULL, KEY (status, next_at))";
    session.run(table).await?;
    let rows: Vec<_> = (1..=200).map(|id| format!("({id}, {}, {id})", id % 2)).collect();
    let fill = format!("INSERT INTO queue (id, status, next_at) VALUES {}", rows.join(","));
    session.run(fill).await?;
    Ok(session)
}

/// Rule: no claim may sort. The hot table has one index, and a claim reads it in its order.
async fn a_claim_that_sorts_leaves_nothing_for_the_next(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home).await?, committed(home).await?);
    let claim = "SELECT id FROM queue WHERE status IN (0, 1) AND next_at < 1000
        ORDER BY next_at LIMIT 10 FOR UPDATE SKIP LOCKED";
    one.run("BEGIN").await?;
    assert_eq!(one.all::<i32>(claim).await?.len(), 10);
    assert_eq!(other.all::<i32>(claim).await?.len(), 0, "190 rows are due");
    Ok(())
}

/// Rule: the same.
async fn a_claim_in_index_order_leaves_the_rest(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home).await?, committed(home).await?);
    let claim = "SELECT id FROM queue WHERE id > 0 ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED";
    one.run("BEGIN").await?;
    assert_eq!(one.all::<i32>(claim).await?, (1..=10).collect::<Vec<_>>());
    assert_eq!(other.all::<i32>(claim).await?, (11..=20).collect::<Vec<_>>());
    Ok(())
}

/// Rule: the hot table has a partition for each shard.
async fn a_claim_of_one_partition_holds_no_more_rows_than_it_takes(home: &Home) -> Result<()> {
    let (mut one, mut observer) = (committed(home).await?, home.mysql().await?);
    let table = "CREATE TABLE hot (seq INT AUTO_INCREMENT, shard INT NOT NULL,
        PRIMARY KEY (seq, shard)) PARTITION BY HASH (shard) PARTITIONS 16";
    one.run(table).await?;
    let rows: Vec<_> = (0..1600).map(|row| format!("({})", row % 16)).collect();
    one.run(format!("INSERT INTO hot (shard) VALUES {}", rows.join(","))).await?;
    one.run("BEGIN").await?;
    let claim = "SELECT seq FROM hot WHERE shard = 3 AND seq > 0
        ORDER BY seq LIMIT 20 FOR UPDATE SKIP LOCKED";
    assert_eq!(one.all::<i32>(claim).await?.len(), 20);
    assert_eq!(observer.rows_held(one.id().await?).await?, 20);
    Ok(())
}

/// Rule: where the server is older than MariaDB 10.6, `skip_locked` is refused with the reason.
async fn skip_locked_is_a_syntax_error(home: &Home) -> Result<()> {
    let mut session = queue(home).await?;
    let claim = session.run("SELECT id FROM queue LIMIT 1 FOR UPDATE SKIP LOCKED").await;
    assert_eq!(number(claim)?, 1064);
    Ok(())
}

/// Rule: `preempt` is safe everywhere, and slower than a claim that skips.
async fn an_update_with_a_limit_waits_and_never_claims_twice(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home).await?, committed(home).await?);
    one.run("BEGIN").await?;
    one.run("UPDATE queue SET owner = 1 WHERE owner = 0 ORDER BY id LIMIT 2").await?;
    let id = other.id().await?;
    let claim = "UPDATE queue SET owner = 2 WHERE owner = 0 ORDER BY id LIMIT 2";
    let waiting = other.run_apart(claim);
    home.mysql().await?.until_waiting(id).await?;
    one.run("COMMIT").await?;
    waiting.await?.1?;
    let owners = "SELECT owner FROM queue WHERE owner > 0 ORDER BY id";
    assert_eq!(one.all::<i32>(owners).await?, [1, 1, 2, 2]);
    Ok(())
}

/// Rule: a claim selects its rows first and changes them by primary key.
async fn a_limit_in_a_subquery_is_refused(home: &Home) -> Result<()> {
    let mut session = queue(home).await?;
    let some = "WHERE id IN (SELECT id FROM queue ORDER BY id LIMIT 2)";
    assert_eq!(number(session.run(format!("SELECT id FROM queue {some}")).await)?, 1235);
    let update = session.run(format!("UPDATE queue SET owner = 1 {some}")).await;
    assert_eq!(number(update)?, 1235);
    Ok(())
}

/// Rule: the same.
async fn no_update_returns_its_rows(home: &Home) -> Result<()> {
    let mut session = queue(home).await?;
    let claim = session.run("UPDATE queue SET owner = 1 LIMIT 2 RETURNING id").await;
    assert_eq!(number(claim)?, 1064);
    Ok(())
}
