//! Isolation: what an idle claimer does to producers, and what a session can see.

use anyhow::Result;
use sqlx::MySql;

use crate::sql_facts::home::{Home, Session, number};

facts!(on_the_mysql_family: [
    an_open_preempt_at_repeatable_read_makes_producers_wait_until_they_fail,
    an_open_preempt_at_read_committed_lets_producers_put,
    an_open_preempt_of_a_few_rows_at_repeatable_read_makes_producers_wait_as_well,
    an_open_preempt_of_a_few_rows_at_read_committed_lets_producers_put,
    after_a_duplicate_repeatable_read_does_not_see_the_row_and_read_committed_does,
]);

facts!(with_skip_locked: [
    an_open_claim_at_repeatable_read_makes_producers_wait_until_they_fail,
    an_open_claim_at_read_committed_lets_producers_put,
    an_open_claim_of_a_few_rows_at_repeatable_read_makes_producers_wait_as_well,
    an_open_claim_of_a_few_rows_at_read_committed_lets_producers_put,
    an_open_claim_of_a_full_table_lets_producers_put_at_any_isolation,
]);

facts!(on_mysql: [the_isolation_is_called_transaction_isolation]);

facts!(on_mariadb: [the_isolation_is_called_tx_isolation]);

const PREEMPT: &str = "UPDATE queue SET owner = 1 WHERE owner = 0 ORDER BY seq LIMIT 10";
const CLAIM: &str = "SELECT seq FROM queue WHERE seq > 0 ORDER BY seq LIMIT 10
    FOR UPDATE SKIP LOCKED";

/// Opens a claim on an empty table, puts an event from another session, and returns what that was
/// answered.
async fn put_beside(home: &Home, claim: &str, isolation: &str) -> Result<u16> {
    put_beside_rows(home, claim, isolation, 0).await
}

/// Does so on a table that has some rows. A claim takes ten at the most.
async fn put_beside_rows(home: &Home, claim: &str, isolation: &str, rows: usize) -> Result<u16> {
    let mut claimer = table(home).await?;
    for _ in 0..rows {
        claimer.run("INSERT INTO queue (owner) VALUES (0)").await?;
    }
    claimer.run(format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")).await?;
    claimer.run("BEGIN").await?;
    claimer.run(claim).await?;
    let mut producer = home.mysql().await?;
    producer.run("SET innodb_lock_wait_timeout = 1").await?;
    number(producer.run("INSERT INTO queue (owner) VALUES (0)").await)
}

async fn table(home: &Home) -> Result<Session<MySql>> {
    let mut session = home.mysql().await?;
    let table = "CREATE TABLE queue (seq INT PRIMARY KEY AUTO_INCREMENT, owner INT NOT NULL)";
    session.run(table).await?;
    Ok(session)
}

/// Rule: every session of the store is READ COMMITTED, and verifies it.
async fn an_open_preempt_at_repeatable_read_makes_producers_wait_until_they_fail(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside(home, PREEMPT, "REPEATABLE READ").await?, 1205);
    Ok(())
}

/// Rule: the same.
async fn an_open_preempt_at_read_committed_lets_producers_put(home: &Home) -> Result<()> {
    assert_eq!(put_beside(home, PREEMPT, "READ COMMITTED").await?, 0);
    Ok(())
}

/// Rule: the same.
async fn an_open_claim_at_repeatable_read_makes_producers_wait_until_they_fail(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside(home, CLAIM, "REPEATABLE READ").await?, 1205);
    Ok(())
}

/// Rule: the same.
async fn an_open_claim_at_read_committed_lets_producers_put(home: &Home) -> Result<()> {
    assert_eq!(put_beside(home, CLAIM, "READ COMMITTED").await?, 0);
    Ok(())
}

/// Rule: the same; a claim that takes all there is goes on to the end, where the next row goes.
async fn an_open_preempt_of_a_few_rows_at_repeatable_read_makes_producers_wait_as_well(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside_rows(home, PREEMPT, "REPEATABLE READ", 3).await?, 1205);
    Ok(())
}

/// Rule: the same.
async fn an_open_preempt_of_a_few_rows_at_read_committed_lets_producers_put(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside_rows(home, PREEMPT, "READ COMMITTED", 3).await?, 0);
    Ok(())
}

/// Rule: the same.
async fn an_open_claim_of_a_few_rows_at_repeatable_read_makes_producers_wait_as_well(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside_rows(home, CLAIM, "REPEATABLE READ", 3).await?, 1205);
    Ok(())
}

/// Rule: the same.
async fn an_open_claim_of_a_few_rows_at_read_committed_lets_producers_put(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside_rows(home, CLAIM, "READ COMMITTED", 3).await?, 0);
    Ok(())
}

/// Rule: none; it tells why nobody meets this while there is much to do.
async fn an_open_claim_of_a_full_table_lets_producers_put_at_any_isolation(
    home: &Home,
) -> Result<()> {
    assert_eq!(put_beside_rows(home, CLAIM, "REPEATABLE READ", 30).await?, 0);
    Ok(())
}

/// Rule: the same; the inbox looks up what a duplicate came to.
async fn after_a_duplicate_repeatable_read_does_not_see_the_row_and_read_committed_does(
    home: &Home,
) -> Result<()> {
    let mut other = table(home).await?;
    let seen = "SELECT COUNT(*) FROM queue WHERE seq = 7";
    for (isolation, sees) in [("REPEATABLE READ", 0), ("READ COMMITTED", 1)] {
        let mut session = home.mysql().await?;
        session.run(format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")).await?;
        session.run("BEGIN").await?;
        assert_eq!(session.one::<i64>(seen).await?, 0);
        other.run("INSERT INTO queue VALUES (7, 0)").await?;
        assert_eq!(number(session.run("INSERT INTO queue VALUES (7, 0)").await)?, 1062);
        assert_eq!(session.one::<i64>(seen).await?, sees, "{isolation}");
        session.run("ROLLBACK").await?;
        other.run("DELETE FROM queue").await?;
    }
    Ok(())
}

/// Rule: the store asks for the isolation by the name that the server knows.
async fn the_isolation_is_called_transaction_isolation(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    let isolation = session.one::<String>("SELECT @@transaction_isolation").await?;
    assert_eq!(isolation, "REPEATABLE-READ");
    assert_eq!(number(session.run("SELECT @@tx_isolation").await)?, 1193);
    Ok(())
}

/// Rule: the same.
async fn the_isolation_is_called_tx_isolation(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    assert_eq!(session.one::<String>("SELECT @@tx_isolation").await?, "REPEATABLE-READ");
    assert_eq!(number(session.run("SELECT @@transaction_isolation").await)?, 1193);
    Ok(())
}
