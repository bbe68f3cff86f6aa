//! Numbers of AUTO_INCREMENT against the order of commits.

use anyhow::Result;

use crate::sql_facts::home::Home;

facts!(on_the_mysql_family: [
    a_cursor_over_auto_increment_loses_the_row_that_commits_late,
]);

/// Rule: rows are claimed by being there; a floor moves only past what can no longer appear.
async fn a_cursor_over_auto_increment_loses_the_row_that_commits_late(home: &Home) -> Result<()> {
    let (mut late, mut reader) = (home.mysql().await?, home.mysql().await?);
    late.run("CREATE TABLE event (seq BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)").await?;
    late.run("BEGIN").await?;
    late.run("INSERT INTO event (n) VALUES (1)").await?;
    reader.run("INSERT INTO event (n) VALUES (2)").await?;
    let cursor = reader.one::<i64>("SELECT MAX(seq) FROM event").await?;
    assert_eq!(cursor, 2);
    late.run("COMMIT").await?;
    let next = format!("SELECT seq FROM event WHERE seq > {cursor}");
    assert_eq!(reader.all::<i64>(next).await?, [0; 0]);
    assert_eq!(reader.all::<i64>("SELECT seq FROM event ORDER BY seq").await?, [1, 2]);
    Ok(())
}
