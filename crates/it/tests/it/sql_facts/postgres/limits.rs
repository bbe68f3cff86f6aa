//! What ends a session that lasts too long.

use anyhow::Result;

use crate::sql_facts::home::{Home, until};

facts!(on_postgres: [
    nothing_is_limited_unless_asked,
    a_session_that_idles_in_a_transaction_is_ended_when_asked,
]);

/// Rule: the store sets all three for each of its sessions, and verifies them.
async fn nothing_is_limited_unless_asked(home: &Home) -> Result<()> {
    let mut session = home.postgres().await?;
    for limit in ["statement", "lock", "idle_in_transaction_session"] {
        let ask = format!("SHOW {limit}_timeout");
        assert_eq!(session.one::<String>(ask).await?, "0", "{limit}");
    }
    Ok(())
}

/// Rule: the same; a relay that was stopped keeps no row from the others.
async fn a_session_that_idles_in_a_transaction_is_ended_when_asked(home: &Home) -> Result<()> {
    let (mut idle, mut other) = (home.postgres().await?, home.postgres().await?);
    other.run("CREATE TABLE queue (id int); INSERT INTO queue VALUES (1)").await?;
    idle.run("SET idle_in_transaction_session_timeout = '50ms'; BEGIN").await?;
    idle.run("SELECT id FROM queue FOR UPDATE").await?;
    let claim = "SELECT id FROM queue FOR UPDATE SKIP LOCKED";
    until(async || Ok(other.all::<i32>(claim).await? == [1])).await?;
    assert!(idle.run("COMMIT").await.is_err(), "the session was to be gone");
    Ok(())
}
