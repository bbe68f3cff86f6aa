//! MariaDB's own isolation of snapshots, which newer releases switch on by themselves.

use anyhow::Result;

use crate::sql_facts::home::{Home, number};

facts!(on_mariadb_10_11: [
    a_row_that_changed_meanwhile_ends_the_transaction_where_snapshots_are_isolated,
]);

/// Rule: 1020 is taken as 1213 is.
async fn a_row_that_changed_meanwhile_ends_the_transaction_where_snapshots_are_isolated(
    home: &Home,
) -> Result<()> {
    let (mut session, mut other) = (home.mysql().await?, home.mysql().await?);
    session.run("CREATE TABLE business (id INT PRIMARY KEY, n INT)").await?;
    session.run("INSERT INTO business VALUES (1, 0)").await?;
    session.run("SET innodb_snapshot_isolation = ON").await?;
    session.run("BEGIN; INSERT INTO business VALUES (2, 0)").await?;
    session.run("SELECT n FROM business").await?;
    other.run("UPDATE business SET n = 1 WHERE id = 1").await?;
    let met = session.run("UPDATE business SET n = 2 WHERE id = 1").await;
    assert_eq!(number(met)?, 1020);
    session.run("COMMIT").await?;
    assert_eq!(other.all::<i32>("SELECT id FROM business").await?, [1], "the whole was undone");
    Ok(())
}
