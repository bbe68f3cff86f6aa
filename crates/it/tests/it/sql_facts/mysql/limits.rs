//! What ends a statement or a session that lasts too long, and what does not.

use anyhow::Result;
use sqlx::MySql;

use crate::sql_facts::home::{Home, Session, number};

facts!(on_the_mysql_family: [a_session_may_idle_in_a_transaction_for_eight_hours]);

facts!(on_mysql: [a_time_limit_ends_a_read_and_no_write]);

facts!(on_mariadb: [a_time_limit_ends_a_read_and_a_write]);

/// Looks at far more rows than any server can within the limit.
const READ: &str = "SELECT COUNT(*) FROM busy a, busy b, busy c, busy d
    WHERE a.n + b.n + c.n + d.n + RAND() < 28";

/// Lasts four times as long as the limit.
const WRITE: &str = "UPDATE busy SET n = SLEEP(0.2) WHERE id = 1";

async fn busy(home: &Home) -> Result<Session<MySql>> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE busy (id INT PRIMARY KEY, n INT)").await?;
    let rows: Vec<_> = (1..=200).map(|id| format!("({id}, 7)")).collect();
    session.run(format!("INSERT INTO busy VALUES {}", rows.join(","))).await?;
    Ok(session)
}

/// Rule: the store sets how long its sessions may idle, and claims commit before anything is
/// published.
async fn a_session_may_idle_in_a_transaction_for_eight_hours(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    assert_eq!(session.one::<u64>("SELECT @@wait_timeout").await?, 8 * 3600);
    Ok(())
}

/// Rule: a write is limited by the wait for rows and by a deadline of the caller's.
async fn a_time_limit_ends_a_read_and_no_write(home: &Home) -> Result<()> {
    let mut session = busy(home).await?;
    session.run("SET max_execution_time = 50").await?;
    assert_eq!(number(session.run(READ).await)?, 3024);
    session.run(WRITE).await?;
    session.run("SET max_execution_time = 0").await?;
    assert_eq!(session.one::<i32>("SELECT n FROM busy WHERE id = 1").await?, 0, "it slept on");
    Ok(())
}

/// Rule: the same; only here the server could do it.
async fn a_time_limit_ends_a_read_and_a_write(home: &Home) -> Result<()> {
    let mut session = busy(home).await?;
    session.run("SET max_statement_time = 0.05").await?;
    assert_eq!(number(session.run(READ).await)?, 1969);
    assert_eq!(number(session.run(WRITE).await)?, 1969);
    session.run("SET max_statement_time = 0").await?;
    assert_eq!(session.one::<i32>("SELECT n FROM busy WHERE id = 1").await?, 7);
    Ok(())
}
