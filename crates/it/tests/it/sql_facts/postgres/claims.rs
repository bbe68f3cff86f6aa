//! What a claim takes, and what it waits for.

use anyhow::Result;

use crate::sql_facts::home::{Home, Session, state};
use sqlx::Postgres;

facts!(on_postgres: [
    a_limit_in_a_subquery_claims_more_than_the_limit_under_a_nested_loop,
    a_materialized_claim_keeps_its_limit_under_the_same_plan,
    a_claim_that_sorts_opens_no_more_rows_than_it_takes,
    claims_that_skip_split_a_key_between_two_claimers,
    a_claim_at_repeatable_read_fails_when_it_meets_another,
    an_update_that_waited_judges_the_row_again,
    a_read_that_waited_may_answer_out_of_order,
    a_put_that_does_nothing_on_conflict_waits_for_its_twin,
]);

const NESTED_LOOP: &str = "SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET enable_hashagg = off; SET enable_sort = off; SET enable_material = off";

/// Opens a session on a queue of rows that nobody owns; the same key in two rows that follow.
async fn queue(home: &Home, rows: u32) -> Result<Session<Postgres>> {
    let mut session = home.postgres().await?;
    let fill = format!(
        "CREATE TABLE queue (id int PRIMARY KEY, key int, owner int NOT NULL DEFAULT 0);
         INSERT INTO queue SELECT id, id / 2 FROM generate_series(1, {rows}) id; ANALYZE queue"
    );
    session.run(fill).await?;
    Ok(session)
}

/// Rule: a claim takes its rows in a MATERIALIZED subquery.
async fn a_limit_in_a_subquery_claims_more_than_the_limit_under_a_nested_loop(
    home: &Home,
) -> Result<()> {
    let mut session = queue(home, 50).await?;
    session.run(NESTED_LOOP).await?;
    let claim = "UPDATE queue SET owner = 1 WHERE id IN
        (SELECT id FROM queue ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id";
    assert_eq!(session.all::<i32>(claim).await?.len(), 50);
    Ok(())
}

/// Rule: the same.
async fn a_materialized_claim_keeps_its_limit_under_the_same_plan(home: &Home) -> Result<()> {
    let mut session = queue(home, 50).await?;
    session.run(NESTED_LOOP).await?;
    let claim = "WITH taken AS MATERIALIZED
        (SELECT id FROM queue ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED)
        UPDATE queue SET owner = 1 FROM taken WHERE queue.id = taken.id RETURNING queue.id";
    let mut claimed = session.all::<i32>(claim).await?;
    claimed.sort_unstable();
    assert_eq!(claimed, [1, 2]);
    Ok(())
}

/// Rule: none; it tells that a claim may sort here, and nowhere in the MySQL family.
async fn a_claim_that_sorts_opens_no_more_rows_than_it_takes(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home, 200).await?, home.postgres().await?);
    let claim = "SELECT id FROM queue WHERE owner IN (0, 1) ORDER BY key DESC, id LIMIT 10
        FOR UPDATE SKIP LOCKED";
    let plan = one.all::<String>(format!("EXPLAIN {claim}")).await?.concat();
    assert!(plan.contains("Sort Key: key DESC, id"), "{plan}");
    one.run("BEGIN").await?;
    assert_eq!(one.all::<i32>(claim).await?.len(), 10);
    assert_eq!(other.all::<i32>(claim).await?.len(), 10, "190 rows are due");
    other.run("BEGIN").await?;
    let rest = "SELECT id FROM queue FOR UPDATE SKIP LOCKED";
    assert_eq!(other.all::<i32>(rest).await?.len(), 190, "all others are free");
    Ok(())
}

/// Rule: only `own`, which takes whole shards, promises order by key.
async fn claims_that_skip_split_a_key_between_two_claimers(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home, 10).await?, home.postgres().await?);
    let claim = "SELECT key FROM queue ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
    one.run("BEGIN").await?;
    assert_eq!(one.all::<i32>(claim).await?, [0, 1]);
    assert_eq!(other.all::<i32>(claim).await?, [1, 2]);
    Ok(())
}

/// Rule: every session of the store is READ COMMITTED, and verifies it.
async fn a_claim_at_repeatable_read_fails_when_it_meets_another(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home, 10).await?, home.postgres().await?);
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    other.one::<i64>("SELECT count(*) FROM queue").await?;
    one.run("UPDATE queue SET owner = 1 WHERE id = 1").await?;
    let claim = "SELECT id FROM queue ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
    assert_eq!(state(other.run(claim).await)?, "40001");
    Ok(())
}

/// Rule: `cas` claims by `WHERE owner = …` and counts what came back.
async fn an_update_that_waited_judges_the_row_again(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home, 10).await?, home.postgres().await?);
    one.run("BEGIN; UPDATE queue SET owner = 1 WHERE id = 1 AND owner = 0").await?;
    let id = other.id().await?;
    let waiting = other.run_apart("UPDATE queue SET owner = 2 WHERE id = 1 AND owner = 0");
    let mut observer = home.postgres().await?;
    observer.until_waiting(id).await?;
    one.run("COMMIT").await?;
    waiting.await?.1?;
    assert_eq!(one.one::<i32>("SELECT owner FROM queue WHERE id = 1").await?, 1);
    Ok(())
}

/// Rule: what was claimed is sorted again in memory.
async fn a_read_that_waited_may_answer_out_of_order(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home, 3).await?, home.postgres().await?);
    one.run("BEGIN; UPDATE queue SET key = 100 WHERE id = 1").await?;
    let id = other.id().await?;
    let claim = "SELECT key FROM queue ORDER BY key, id FOR UPDATE";
    let waiting = tokio::spawn(async move { other.all::<i32>(claim).await });
    home.postgres().await?.until_waiting(id).await?;
    one.run("COMMIT").await?;
    assert_eq!(waiting.await??, [100, 1, 1]);
    Ok(())
}

/// Rule: the inbox and every other dedupe set a timeout for such waits.
async fn a_put_that_does_nothing_on_conflict_waits_for_its_twin(home: &Home) -> Result<()> {
    let (mut one, mut other) = (queue(home, 1).await?, home.postgres().await?);
    one.run("BEGIN; INSERT INTO queue VALUES (7)").await?;
    let put = "INSERT INTO queue VALUES (7) ON CONFLICT DO NOTHING";
    other.run("SET lock_timeout = '50ms'").await?;
    assert_eq!(state(other.run(put).await)?, "55P03");
    one.run("COMMIT").await?;
    other.run(put).await?;
    Ok(())
}
