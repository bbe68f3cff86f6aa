//! What becomes of keys and payloads.

use anyhow::Result;

use crate::sql_facts::home::{Home, number};

facts!(on_the_mysql_family: [
    insert_ignore_cuts_a_key_short_and_then_swallows_another,
    the_default_collation_takes_two_cases_for_one_key,
    a_binary_collation_still_takes_a_trailing_space_for_nothing,
    bytes_are_compared_as_they_are,
    a_text_column_translates_what_a_client_writes_and_a_blob_does_not,
]);

facts!(on_mysql: [
    the_default_collation_keeps_a_trailing_space,
    json_rewrites_a_payload,
]);

facts!(on_mariadb: [
    the_default_collation_takes_a_trailing_space_for_nothing,
    json_keeps_a_payload,
]);

/// Rule: no statement says INSERT IGNORE; a duplicate is the error 1062.
async fn insert_ignore_cuts_a_key_short_and_then_swallows_another(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE inbox (k VARBINARY(4) PRIMARY KEY)").await?;
    let strict = session.run("INSERT INTO inbox VALUES ('order-1')").await;
    assert_eq!(number(strict)?, 1406);
    session.run("INSERT IGNORE INTO inbox VALUES ('order-1')").await?;
    session.run("INSERT IGNORE INTO inbox VALUES ('order-2')").await?;
    assert_eq!(session.all::<Vec<u8>>("SELECT k FROM inbox").await?, [b"orde"]);
    Ok(())
}

/// Puts two keys into one table and returns what the second was answered.
async fn second(home: &Home, column: &str, keys: [&str; 2]) -> Result<u16> {
    let mut session = home.mysql().await?;
    session.run(format!("CREATE TABLE inbox (k {column} PRIMARY KEY)")).await?;
    session.run(format!("INSERT INTO inbox VALUES ('{}')", keys[0])).await?;
    number(session.run(format!("INSERT INTO inbox VALUES ('{}')", keys[1])).await)
}

/// Rule: keys and ids are compared as bytes.
async fn the_default_collation_takes_two_cases_for_one_key(home: &Home) -> Result<()> {
    assert_eq!(second(home, "VARCHAR(99)", ["Order-A", "order-a"]).await?, 1062);
    Ok(())
}

/// Rule: the same.
async fn a_binary_collation_still_takes_a_trailing_space_for_nothing(home: &Home) -> Result<()> {
    let column = "VARCHAR(99) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    assert_eq!(second(home, column, ["order", "order "]).await?, 1062);
    Ok(())
}

/// Rule: the same.
async fn bytes_are_compared_as_they_are(home: &Home) -> Result<()> {
    assert_eq!(second(home, "VARBINARY(99)", ["order", "order "]).await?, 0);
    Ok(())
}

/// Rule: the same.
async fn the_default_collation_keeps_a_trailing_space(home: &Home) -> Result<()> {
    assert_eq!(second(home, "VARCHAR(99)", ["order", "order "]).await?, 0);
    Ok(())
}

/// Rule: the same.
async fn the_default_collation_takes_a_trailing_space_for_nothing(home: &Home) -> Result<()> {
    assert_eq!(second(home, "VARCHAR(99)", ["order", "order "]).await?, 1062);
    Ok(())
}

const PAYLOAD: &str = r#"{"n":12345678901234567890123,"a":1,"a":2}"#;

/// Returns what a JSON column makes of a payload.
async fn through_json(home: &Home) -> Result<String> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE event (payload JSON)").await?;
    session.run(format!("INSERT INTO event VALUES ('{PAYLOAD}')")).await?;
    Ok(session.one("SELECT CAST(payload AS CHAR) FROM event").await?)
}

/// Rule: a payload is text or bytes, never a JSON type.
async fn json_rewrites_a_payload(home: &Home) -> Result<()> {
    assert_eq!(through_json(home).await?, r#"{"a": 2, "n": 1.2345678901234568e22}"#);
    Ok(())
}

/// Rule: the same; only here JSON is another word for text.
async fn json_keeps_a_payload(home: &Home) -> Result<()> {
    assert_eq!(through_json(home).await?, PAYLOAD);
    Ok(())
}

/// Rule: a text payload has a utf8mb4 column of its own, beside the one for bytes.
async fn a_text_column_translates_what_a_client_writes_and_a_blob_does_not(
    home: &Home,
) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run("CREATE TABLE event (payload TEXT CHARACTER SET utf8mb4, bytes BLOB)").await?;
    session.run("INSERT INTO event VALUES (_latin1 X'E9', _latin1 X'E9')").await?;
    let stored = "SELECT CONCAT_WS(' ', HEX(payload), HEX(bytes)) FROM event";
    assert_eq!(session.one::<String>(stored).await?, "C3A9 E9");
    Ok(())
}
