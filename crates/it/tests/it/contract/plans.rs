//! How PostgreSQL means to run every statement, with few rows and with many: what the doctor says.

use it::world::need;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store::{Finding, Grade, Outbox, Setup};

/// Fills the four tables and the inbox: `rows` of each.
async fn fill(conn: &mut PgConnection, table: &str, rows: i64) {
    let event = "gen_random_uuid()::text, 't', 'T', 'k' || (n % 50), 'x', '{}', n";
    let columns = "event_id, topic, event_type, biz_key, payload, headers, created_at";
    for (end, more, values) in [
        ("", "", ""),
        ("_later", ", due_at, attempts, trail", ", n, n % 2, '[]'"),
        ("_dead", ", seq, attempts, trail, dead_at", ", n, 1, '[]', n"),
        ("_sent", ", seq, attempts, sent_at", ", n, 1, n"),
    ] {
        let sql = format!(
            "INSERT INTO {table}{end} ({columns}{more}) SELECT {event}{values} \
             FROM generate_series(1, {rows}) AS n"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.unwrap();
    }
    let sql = format!(
        "INSERT INTO {table}_inbox SELECT 'g', gen_random_uuid()::text, 'PROCESSED', 1, 1, 0, \
         NULL, n, n FROM generate_series(1, {rows}) AS n"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.unwrap();
}

async fn plan(outbox: &dyn Outbox) -> Finding {
    let findings = outbox.examine().await.unwrap();
    findings.into_iter().find(|finding| finding.what == "plan").expect("the doctor asks for plans")
}

#[tokio::test]
async fn postgres_serves_every_statement_by_index_with_few_rows_and_with_many() {
    let url = need("postgres").detail("url").to_owned();
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), ..Setup::new(url.clone()) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for rows in [0, 10, 990, 99_000] {
        fill(&mut conn, &table, rows).await;
        // With sizes that nobody has measured since, and with those that are right.
        for measured in [false, true] {
            if measured {
                sqlx::raw_sql("VACUUM ANALYZE").execute(&mut conn).await.unwrap();
            }
            let plan = plan(&*outbox).await;
            let Finding { grade, detail, .. } = plan;
            assert_eq!(grade, Grade::Good, "{rows} more rows, measured: {measured}: {detail}");
        }
    }
    let drop = format!("DROP INDEX {table}_later_due");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut conn).await.unwrap();
    let plan = plan(&*outbox).await;
    assert_eq!(plan.grade, Grade::Bad);
    assert!(plan.detail.contains(&format!("due_later does not use {table}_later_due")), "{plan:?}");
    outbox.close().await;
}
