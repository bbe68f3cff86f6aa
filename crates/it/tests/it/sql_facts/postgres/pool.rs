//! What the driver's pool lends after a caller went away.

use anyhow::Result;
use futures_util::FutureExt;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor};

use crate::sql_facts::home::Home;

facts!(on_postgres: [a_begin_that_is_given_up_lends_the_next_caller_an_open_transaction]);

/// Rule: no timeout stands around a begin or a commit, and a connection in doubt is closed.
async fn a_begin_that_is_given_up_lends_the_next_caller_an_open_transaction(
    home: &Home,
) -> Result<()> {
    let pool = PgPoolOptions::new().max_connections(1).connect(&home.url).await?;
    pool.execute("CREATE TABLE business (id int)").await?;
    let mut lent = pool.acquire().await?;
    while let Some(begun) = lent.begin().now_or_never() {
        // The server was quicker than the caller.
        begun?.rollback().await?;
    }
    drop(lent);
    pool.execute("INSERT INTO business VALUES (1)").await?;
    let mut other = home.postgres().await?;
    assert_eq!(other.one::<i64>("SELECT count(*) FROM business").await?, 0, "nobody committed it");
    pool.close().await;
    Ok(())
}
