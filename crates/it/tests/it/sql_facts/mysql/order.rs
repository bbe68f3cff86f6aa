//! Numbers of AUTO_INCREMENT against the order of commits.

use anyhow::{Context, Result};

use crate::sql_facts::home::{Home, until};

facts!(on_the_mysql_family: [
    a_cursor_over_auto_increment_loses_the_row_that_commits_late,
    a_row_of_a_prepared_transaction_outlives_its_session_and_a_dirty_read_shows_it,
    an_insert_select_reserves_numbers_for_rows_that_it_puts_later,
]);

/// Rule: a cursor is no more than where a look begins; a look asks for the missing numbers below
/// it, down to the floor.
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

/// Rule: the floor rises only to numbers whose rows have had two seconds to be in the table, and
/// by a read of uncommitted rows: those that it shows and nobody has looked at are looked for below
/// the floor, until they are committed or gone.
async fn a_row_of_a_prepared_transaction_outlives_its_session_and_a_dirty_read_shows_it(
    home: &Home,
) -> Result<()> {
    let (mut late, mut observer) = (home.mysql().await?, home.mysql().await?);
    late.run("CREATE TABLE event (seq BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)").await?;
    let name = late.one::<String>("SELECT DATABASE()").await?;
    late.run(format!("XA START '{name}'; INSERT INTO event (n) VALUES (1)")).await?;
    let session = late.id().await?;
    observer.transaction_of(session).await?.context("none is open")?;
    late.run(format!("XA END '{name}'; XA PREPARE '{name}'")).await?;
    late.close().await?;
    until(async || Ok(observer.transaction_of(session).await?.is_none())).await?;
    let numbers = "SELECT seq FROM event";
    for (isolation, shown) in [("READ COMMITTED", &[][..]), ("READ UNCOMMITTED", &[1][..])] {
        observer.run(format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")).await?;
        assert_eq!(observer.all::<i64>(numbers).await?, shown, "{isolation}");
    }
    observer.run(format!("XA ROLLBACK '{name}'")).await?;
    assert_eq!(observer.all::<i64>(numbers).await?, [0; 0], "and not when it is gone");
    Ok(())
}

/// Rule: whoever puts many events reads first, for a relay waits two seconds for a number's row.
async fn an_insert_select_reserves_numbers_for_rows_that_it_puts_later(home: &Home) -> Result<()> {
    let (mut slow, mut other) = (home.mysql().await?, home.mysql().await?);
    let mut gate = home.mysql().await?;
    other
        .run(
            "CREATE TABLE source (id INT PRIMARY KEY); \
             INSERT INTO source VALUES (1), (2), (3), (4), (5), (6), (7), (8); \
             CREATE TABLE event (seq BIGINT AUTO_INCREMENT, shard SMALLINT, n INT, \
                 PRIMARY KEY (seq, shard)) PARTITION BY HASH (shard) PARTITIONS 16; \
             SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        )
        .await?;
    gate.run("BEGIN; SELECT id FROM source WHERE id = 6 FOR UPDATE").await?;
    slow.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    let session = slow.id().await?;
    let insert = "INSERT INTO event (shard, n) \
                  SELECT 1, id FROM source ORDER BY id LOCK IN SHARE MODE";
    let inserting = slow.run_apart(insert);
    other.until_waiting(session).await?;
    other.run("INSERT INTO event (shard, n) VALUES (2, 0)").await?;
    // The blocks are 1, then 2 and 3, then 4 to 7: two rows of the last are still to be read.
    let numbers = "SELECT seq FROM event ORDER BY seq";
    assert_eq!(other.all::<i64>(numbers).await?, [1, 2, 3, 4, 5, 8]);
    gate.run("COMMIT").await?;
    inserting.await?.1?;
    assert_eq!(other.all::<i64>(numbers).await?[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
    Ok(())
}
