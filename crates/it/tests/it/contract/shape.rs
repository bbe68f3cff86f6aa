//! The shape of the hot table, as the server's own catalog has it: one index and no more, so that a
//! row that comes and goes costs as little as a row can.

use it::session::Session;
use it::world::need;
use store::Setup;

async fn the_hot_table_has_one_index_and_its_shard_by_itself(server: &str) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.close().await;
    let mut session = Session::open(&setup.url).await.unwrap();
    match session.is_postgres() {
        true => on_postgres(&mut session, &table).await,
        false => on_the_mysql_family(&mut session, &table).await,
    }
    session.close().await.unwrap();
}

async fn on_postgres(session: &mut Session, table: &str) {
    let indexes = format!(
        "SELECT regexp_replace(pg_get_indexdef(indexrelid), '^.* USING ', '') \
         || CASE WHEN indisprimary THEN ' primary' ELSE '' END \
         FROM pg_index WHERE indrelid = '{table}'::regclass"
    );
    assert_eq!(session.texts(indexes, 0).await.unwrap(), ["btree (shard, seq) primary"]);
    let kinds = format!(
        "SELECT relkind::text FROM pg_class WHERE oid = '{table}'::regclass UNION ALL \
         SELECT attgenerated::text FROM pg_attribute \
         WHERE attrelid = '{table}'::regclass AND attname = 'shard'"
    );
    assert_eq!(session.texts(kinds, 0).await.unwrap(), ["r", "s"], "one table, a stored shard");
}

async fn on_the_mysql_family(session: &mut Session, table: &str) {
    let of = format!("WHERE table_schema = DATABASE() AND table_name = '{table}'");
    let indexes = format!(
        "SELECT CAST(CONCAT_WS(' ', index_name, seq_in_index, column_name) AS CHAR) \
         FROM information_schema.statistics {of} ORDER BY 1"
    );
    let indexes = session.texts(indexes, 0).await.unwrap();
    assert_eq!(indexes, ["PRIMARY 1 seq", "PRIMARY 2 shard"]);
    let partitions = format!(
        "SELECT CAST(CONCAT_WS(' ', partition_method, REPLACE(partition_expression, '`', '')) \
         AS CHAR) FROM information_schema.partitions {of}"
    );
    assert_eq!(session.texts(partitions, 0).await.unwrap(), ["HASH shard"; 16]);
    let shard = format!(
        "SELECT CAST(LOWER(column_default) AS CHAR) FROM information_schema.columns {of} \
         AND column_name = 'shard' AND COALESCE(generation_expression, '') = ''"
    );
    let shard = session.texts(shard, 0).await.unwrap().concat();
    let by = shard.trim_end_matches(')').rsplit(' ').next();
    assert!(shard.contains("crc32(") && by == Some("16"), "a default: {shard}");
}

servers!(the_hot_table_has_one_index_and_its_shard_by_itself);

#[tokio::test]
async fn on_postgres_18() {
    the_hot_table_has_one_index_and_its_shard_by_itself("postgres-18").await;
}
