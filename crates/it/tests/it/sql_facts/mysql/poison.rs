//! What a transaction still is after something went wrong in it, or after it was ended unasked.

use anyhow::Result;
use sqlx::{Connection, MySql};

use crate::sql_facts::home::{Home, Session, number};

facts!(with_skip_locked: [after_a_deadlock_the_next_statement_commits_by_itself]);

facts!(without_skip_locked: [after_a_deadlock_the_next_statement_begins_anew]);

facts!(on_the_mysql_family: [
    a_commit_after_a_deadlock_keeps_an_event_of_nothing,
    after_a_lock_wait_timeout_only_the_statement_is_undone,
    a_rollback_leaves_rows_in_myisam,
    a_create_table_commits_what_was_open,
    two_that_look_before_they_put_deadlock,
    two_that_wait_for_a_third_to_put_deadlock_when_it_does_not,
]);

/// Opens a session on two tables of business rows, 1 and 2, and none of events.
async fn tables(home: &Home, engine: &str) -> Result<Session<MySql>> {
    let mut session = home.mysql().await?;
    let tables = format!(
        "CREATE TABLE business (id INT PRIMARY KEY, n INT NOT NULL);
         CREATE TABLE event (id INT PRIMARY KEY) ENGINE = {engine};
         INSERT INTO business VALUES (1, 0), (2, 0)"
    );
    session.run(tables).await?;
    Ok(session)
}

/// Loses a deadlock, puts an event in what the driver still takes for the transaction, ends that,
/// and returns the events and the business rows that stay.
async fn put_after_a_deadlock(home: &Home, commit: bool) -> Result<(i64, i64)> {
    let (mut victim, mut heavy) = (tables(home, "InnoDB").await?, home.mysql().await?);
    heavy.run("BEGIN; INSERT INTO business VALUES (3, 0), (4, 0), (5, 0), (6, 0)").await?;
    heavy.run("UPDATE business SET n = 1 WHERE id = 2").await?;
    let mut transaction = victim.connection().begin().await?;
    sqlx::raw_sql("UPDATE business SET n = 2 WHERE id = 1").execute(&mut *transaction).await?;
    let id = heavy.id().await?;
    let waiting = heavy.run_apart("UPDATE business SET n = 1 WHERE id = 1");
    home.mysql().await?.until_waiting(id).await?;
    let crossed = sqlx::raw_sql("UPDATE business SET n = 2 WHERE id = 2");
    assert_eq!(number(crossed.execute(&mut *transaction).await)?, 1213);
    sqlx::raw_sql("INSERT INTO event VALUES (1)").execute(&mut *transaction).await?;
    if commit {
        transaction.commit().await?;
    } else {
        transaction.rollback().await?;
    }
    waiting.await?.1?;
    let mut observer = home.mysql().await?;
    let events = observer.one("SELECT COUNT(*) FROM event").await?;
    Ok((events, observer.one("SELECT COUNT(*) FROM business WHERE n = 2").await?))
}

/// Rule: after 1213 nothing goes out on that connection but a new BEGIN; the driver is not asked.
async fn after_a_deadlock_the_next_statement_commits_by_itself(home: &Home) -> Result<()> {
    assert_eq!(put_after_a_deadlock(home, false).await?, (1, 0));
    Ok(())
}

/// Rule: the same; the old MariaDB differs, and is no safer, as the next fact tells.
async fn after_a_deadlock_the_next_statement_begins_anew(home: &Home) -> Result<()> {
    assert_eq!(put_after_a_deadlock(home, false).await?, (0, 0));
    Ok(())
}

/// Rule: the same.
async fn a_commit_after_a_deadlock_keeps_an_event_of_nothing(home: &Home) -> Result<()> {
    assert_eq!(put_after_a_deadlock(home, true).await?, (1, 0));
    Ok(())
}

/// Rule: 1205 is taken as 1213 is: the whole transaction is rolled back and tried again.
async fn after_a_lock_wait_timeout_only_the_statement_is_undone(home: &Home) -> Result<()> {
    let (mut session, mut other) = (tables(home, "InnoDB").await?, home.mysql().await?);
    assert_eq!(session.one::<i64>("SELECT @@innodb_rollback_on_timeout").await?, 0);
    other.run("BEGIN; INSERT INTO event VALUES (1)").await?;
    session.run("SET innodb_lock_wait_timeout = 1").await?;
    session.run("BEGIN; UPDATE business SET n = 7 WHERE id = 1").await?;
    assert_eq!(number(session.run("INSERT INTO event VALUES (1)").await)?, 1205);
    session.run("COMMIT").await?;
    other.run("ROLLBACK").await?;
    let kept = "SELECT n FROM business WHERE id = 1";
    assert_eq!(other.one::<i32>(kept).await?, 7, "business without its event");
    assert_eq!(other.one::<i64>("SELECT COUNT(*) FROM event").await?, 0);
    Ok(())
}

/// Rule: the store refuses tables that are not InnoDB.
async fn a_rollback_leaves_rows_in_myisam(home: &Home) -> Result<()> {
    let mut session = tables(home, "MyISAM").await?;
    session.run("BEGIN; INSERT INTO event VALUES (1)").await?;
    session.run("UPDATE business SET n = 7; ROLLBACK").await?;
    assert_eq!(session.one::<i64>("SELECT COUNT(*) FROM event").await?, 1);
    assert_eq!(session.one::<i64>("SELECT COUNT(*) FROM business WHERE n = 7").await?, 0);
    Ok(())
}

/// Rule: tables and partitions are made by migrations and chores, never beside an event.
async fn a_create_table_commits_what_was_open(home: &Home) -> Result<()> {
    let mut session = tables(home, "InnoDB").await?;
    session.run("BEGIN; INSERT INTO event VALUES (1)").await?;
    session.run("CREATE TABLE next_day (id INT); ROLLBACK").await?;
    assert_eq!(session.one::<i64>("SELECT COUNT(*) FROM event").await?, 1);
    Ok(())
}

/// Rule: whoever wants a row that may be there puts it first, and looks after the refusal.
async fn two_that_look_before_they_put_deadlock(home: &Home) -> Result<()> {
    let (mut one, mut other) = (tables(home, "InnoDB").await?, home.mysql().await?);
    let look = "BEGIN; SELECT id FROM event WHERE id = 7 FOR UPDATE";
    one.run(look).await?;
    other.run(look).await?;
    let id = one.id().await?;
    let waiting = one.run_apart("INSERT INTO event VALUES (7)");
    home.mysql().await?.until_waiting(id).await?;
    let second = number(other.run("INSERT INTO event VALUES (7)").await)?;
    let first = number(waiting.await?.1)?;
    assert_eq!(first.max(second), 1213);
    Ok(())
}

/// Rule: a whole transaction is tried again after 1213, also one that only puts.
async fn two_that_wait_for_a_third_to_put_deadlock_when_it_does_not(home: &Home) -> Result<()> {
    let (mut third, mut observer) = (tables(home, "InnoDB").await?, home.mysql().await?);
    third.run("BEGIN; INSERT INTO event VALUES (7)").await?;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut session = home.mysql().await?;
        session.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
        let id = session.id().await?;
        waiting.push(session.run_apart("INSERT INTO event VALUES (7)"));
        observer.until_waiting(id).await?;
    }
    third.run("ROLLBACK").await?;
    let mut answers = Vec::new();
    for one in waiting {
        answers.push(number(one.await?.1)?);
    }
    answers.sort_unstable();
    assert_eq!(answers, [0, 1213]);
    Ok(())
}
