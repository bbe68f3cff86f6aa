//! What a hot table may look like.

use anyhow::Result;
use sqlx::Row;

use crate::sql_facts::home::{Home, number};

facts!(on_mariadb: [a_generated_shard_is_refused_in_the_primary_key]);

facts!(on_mysql: [
    a_generated_shard_may_stand_in_the_primary_key,
    a_plan_is_a_tree_of_text_unless_a_table_is_asked_for,
]);

facts!(on_the_mysql_family: [
    a_default_may_refer_to_other_columns_beside_sixteen_partitions,
    a_read_of_one_shard_looks_into_one_partition,
    the_number_must_lead_an_index,
    the_shard_must_stand_in_every_unique_index,
]);

const HOT: &str = "CREATE TABLE hot (
    seq BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    event_id CHAR(36) CHARACTER SET ascii NOT NULL DEFAULT (UUID()),
    biz_key VARCHAR(255),
    payload TEXT NOT NULL,
    shard SMALLINT UNSIGNED NOT NULL DEFAULT (CRC32(COALESCE(biz_key, event_id)) % 16),
    PRIMARY KEY (seq, shard)) PARTITION BY HASH (shard) PARTITIONS 16";

const GENERATED: &str =
    "CREATE TABLE hot (seq BIGINT NOT NULL AUTO_INCREMENT, biz_key VARCHAR(255),
    shard SMALLINT UNSIGNED AS (CRC32(biz_key) % 16) STORED, PRIMARY KEY (seq, shard))";

/// Rule: the shard is a default, not a generated column, so that one text serves the family.
async fn a_generated_shard_is_refused_in_the_primary_key(home: &Home) -> Result<()> {
    assert_eq!(number(home.mysql().await?.run(GENERATED).await)?, 1903);
    Ok(())
}

/// Rule: none yet; it tells that the default is for MariaDB's sake.
async fn a_generated_shard_may_stand_in_the_primary_key(home: &Home) -> Result<()> {
    home.mysql().await?.run(GENERATED).await?;
    Ok(())
}

/// Rule: a plain INSERT in any language is enough, for one row or for many.
async fn a_default_may_refer_to_other_columns_beside_sixteen_partitions(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run(HOT).await?;
    session.run("INSERT INTO hot (payload) VALUES ('a'), ('b'), ('c')").await?;
    session.run("INSERT INTO hot (biz_key, payload) VALUES ('k', 'd'), ('l', 'e')").await?;
    session.run("INSERT INTO hot (payload) SELECT payload FROM hot").await?;
    let ids = "SELECT COUNT(DISTINCT event_id) FROM hot";
    assert_eq!(session.one::<i64>(ids).await?, 10, "each row has its own");
    let right = "SELECT COUNT(*) FROM hot WHERE shard = CRC32(COALESCE(biz_key, event_id)) % 16";
    assert_eq!(session.one::<i64>(right).await?, 10);
    session.run("INSERT INTO hot (payload, shard) VALUES ('f', 3)").await?;
    let wrong = "SELECT COUNT(*) FROM hot WHERE shard = 3 AND payload = 'f'";
    assert_eq!(session.one::<i64>(wrong).await?, 1, "a producer can write it wrongly");
    Ok(())
}

/// Rule: the same table; a claim costs what its own shard holds.
async fn a_read_of_one_shard_looks_into_one_partition(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run(HOT).await?;
    let maria = home.server.version.contains("MariaDB");
    let explain = if maria { "EXPLAIN PARTITIONS" } else { "EXPLAIN FORMAT = TRADITIONAL" };
    let read = "SELECT seq FROM hot WHERE shard = 3 AND seq > 5 ORDER BY seq LIMIT 10";
    let plan = sqlx::raw_sql(sqlx::AssertSqlSafe(format!("{explain} {read}")));
    let plan = plan.fetch_one(session.connection()).await?;
    assert_eq!(plan.try_get::<String, _>("partitions")?, "p3");
    Ok(())
}

/// Rule: whoever reads a plan names its format.
async fn a_plan_is_a_tree_of_text_unless_a_table_is_asked_for(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    assert_eq!(session.one::<String>("SELECT @@explain_format").await?, "TREE");
    let plan = session.one::<String>("EXPLAIN SELECT 1").await?;
    assert!(plan.starts_with("-> "), "{plan}");
    Ok(())
}

/// Rule: the primary key is (seq, shard), and not (shard, seq) as on PostgreSQL.
async fn the_number_must_lead_an_index(home: &Home) -> Result<()> {
    let table = "CREATE TABLE hot (shard INT, seq INT AUTO_INCREMENT, PRIMARY KEY (shard, seq))";
    assert_eq!(number(home.mysql().await?.run(table).await)?, 1075);
    Ok(())
}

/// Rule: the event id cannot be unique in the hot table; consumers dedupe by it.
async fn the_shard_must_stand_in_every_unique_index(home: &Home) -> Result<()> {
    let mut session = home.mysql().await?;
    session.run(HOT).await?;
    let unique = session.run("ALTER TABLE hot ADD UNIQUE KEY (event_id)").await;
    assert_eq!(number(unique)?, 1503);
    Ok(())
}
