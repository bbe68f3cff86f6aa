//! What becomes of values: times, payloads, the shard.

use anyhow::Result;

use crate::sql_facts::home::{Home, state};

facts!(on_postgres: [
    now_stands_still_in_a_transaction_while_the_clock_moves,
    jsonb_rewrites_a_payload_and_text_keeps_it,
    bytea_takes_a_text_for_escapes,
    a_stored_shard_may_stand_in_the_primary_key,
    a_default_may_not_refer_to_another_column,
]);

/// Rule: statements of the store ask clock_timestamp(), never now().
async fn now_stands_still_in_a_transaction_while_the_clock_moves(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    session.run("BEGIN").await?;
    let mut times = Vec::new();
    for ask in ["now", "clock_timestamp"].repeat(2) {
        times.push(session.one::<String>(format!("SELECT {ask}()::text")).await?);
    }
    assert_eq!(times[0], times[2], "now()");
    assert_ne!(times[1], times[3], "clock_timestamp()");
    Ok(())
}

/// Rule: a payload is text or bytes, never a JSON type.
async fn jsonb_rewrites_a_payload_and_text_keeps_it(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    let payload = r#"{"b":1.0, "a": 1e2,"b":2}"#;
    let jsonb = session.one::<String>(format!("SELECT '{payload}'::jsonb::text")).await?;
    assert_eq!(jsonb, r#"{"a": 100, "b": 2}"#);
    assert_eq!(session.one::<String>(format!("SELECT '{payload}'::text")).await?, payload);
    let nul = session.run(r#"SELECT '"\u0000"'::jsonb"#).await;
    assert_eq!(state(nul)?, "22P05");
    Ok(())
}

/// Rule: a text payload has a text column of its own, beside the one for bytes.
async fn bytea_takes_a_text_for_escapes(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    assert_eq!(state(session.run(r#"SELECT '{"a":"x\n"}'::bytea"#).await)?, "22P02");
    let halved = session.one::<String>(r"SELECT convert_from('a\\b'::bytea, 'UTF8')").await?;
    assert_eq!(halved, r"a\b");
    Ok(())
}

const SHARD: &str = "(hashtextextended(coalesce(biz_key, event_id), 0) & 15)::smallint";

/// Rule: the hot table computes its shard, and its one index begins with it.
async fn a_stored_shard_may_stand_in_the_primary_key(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    let table = format!(
        "CREATE TABLE event (seq bigint GENERATED ALWAYS AS IDENTITY, event_id text NOT NULL,
         biz_key text, shard smallint GENERATED ALWAYS AS ({SHARD}) STORED,
         PRIMARY KEY (shard, seq))"
    );
    session.run(table).await?;
    session.run("INSERT INTO event (event_id, biz_key) VALUES ('a', 'k'), ('b', NULL)").await?;
    let wrong = format!("SELECT count(*) FROM event WHERE shard <> {SHARD}");
    assert_eq!(session.one::<i64>(wrong).await?, 0);
    let given = session.run("INSERT INTO event (event_id, shard) VALUES ('c', 1)").await;
    let version = "SELECT current_setting('server_version_num')::bigint";
    let refused = if session.one::<i64>(version).await? < 140_000 { "42601" } else { "428C9" };
    assert_eq!(state(given)?, refused, "a producer cannot write it wrongly");
    Ok(())
}

/// Rule: the same; PostgreSQL cannot do it as the MySQL family does.
async fn a_default_may_not_refer_to_another_column(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    let table = "CREATE TABLE event (biz_key text, shard int DEFAULT (hashtext(biz_key) & 15))";
    assert_eq!(state(session.run(table).await)?, "0A000");
    Ok(())
}
