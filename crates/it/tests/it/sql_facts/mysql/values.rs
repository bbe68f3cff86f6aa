//! What becomes of times and counts.

use anyhow::Result;
use sqlx::Executor;

use crate::sql_facts::home::Home;

facts!(on_the_mysql_family: [
    a_datetime_of_six_digits_keeps_a_time,
    now_follows_the_time_zone_of_the_session_and_utc_does_not,
    the_driver_counts_rows_that_were_found_and_not_changed,
    the_driver_counts_a_duplicate_as_an_insert,
    an_update_can_hand_back_the_number_that_it_wrote,
]);

facts!(on_mysql: [a_plain_datetime_rounds_a_time_up]);

facts!(on_mariadb: [a_plain_datetime_cuts_a_time_short]);

/// Returns what a column makes of a time.
async fn through(home: &Home, column: &str) -> Result<String> {
    let mut session = home.mysql().await?;
    session.run(format!("CREATE TABLE event (at {column})")).await?;
    session.run("INSERT INTO event VALUES ('2026-11-16 10:00:00.700001')").await?;
    Ok(session.one("SELECT CAST(at AS CHAR) FROM event").await?)
}

/// Rule: every time of the store is DATETIME(6).
async fn a_datetime_of_six_digits_keeps_a_time(home: &Home) -> Result<()> {
    assert_eq!(through(home, "DATETIME(6)").await?, "2026-11-16 10:00:00.700001");
    Ok(())
}

/// Rule: the same.
async fn a_plain_datetime_rounds_a_time_up(home: &Home) -> Result<()> {
    assert_eq!(through(home, "DATETIME").await?, "2026-11-16 10:00:01");
    Ok(())
}

/// Rule: the same.
async fn a_plain_datetime_cuts_a_time_short(home: &Home) -> Result<()> {
    assert_eq!(through(home, "DATETIME").await?, "2026-11-16 10:00:00");
    Ok(())
}

/// Rule: statements of the store ask UTC_TIMESTAMP(6), never NOW().
async fn now_follows_the_time_zone_of_the_session_and_utc_does_not(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run("SET time_zone = '+08:00'").await?;
    let apart = "SELECT TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(6), NOW(6))";
    assert_eq!(session.one::<i64>(apart).await?, 8);
    session.run("SET time_zone = '+00:00'").await?;
    assert_eq!(session.one::<i64>(apart).await?, 0);
    Ok(())
}

/// Rule: a write whose count decides something always changes the row, for example its fence.
async fn the_driver_counts_rows_that_were_found_and_not_changed(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE lease (id INT PRIMARY KEY, owner INT)").await?;
    session.run("INSERT INTO lease VALUES (1, 5)").await?;
    assert_eq!(session.count("UPDATE lease SET owner = 5 WHERE id = 1").await?, 1);
    assert_eq!(session.count("UPDATE lease SET owner = 5 WHERE id = 2").await?, 0);
    Ok(())
}

/// Rule: a duplicate is the error 1062, never a count.
async fn the_driver_counts_a_duplicate_as_an_insert(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE inbox (id INT PRIMARY KEY)").await?;
    let put = "INSERT INTO inbox VALUES (1) ON DUPLICATE KEY UPDATE id = id";
    assert_eq!(session.count(put).await?, 1, "new");
    assert_eq!(session.count(put).await?, 1, "a duplicate");
    Ok(())
}

/// Rule: a lease is taken in one statement, whose answer holds the new fence.
async fn an_update_can_hand_back_the_number_that_it_wrote(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE lease (id INT PRIMARY KEY, fence BIGINT)").await?;
    session.run("INSERT INTO lease VALUES (1, 41)").await?;
    let take = "UPDATE lease SET fence = LAST_INSERT_ID(fence + 1) WHERE id = 1";
    let taken = session.connection().execute(sqlx::raw_sql(take)).await?;
    assert_eq!((taken.rows_affected(), taken.last_insert_id()), (1, 42));
    Ok(())
}
