//! How a server means to run every statement, with few rows and with many: what the doctor says.

use it::session::Session;
use it::world::need;
use store::{Finding, Grade, Outbox, Setup};

/// Fills the four tables and the inbox: `rows` of each.
async fn fill(session: &mut Session, table: &str, rows: i64) {
    let numbers = session.numbers(rows);
    let (id, key) = match session.is_postgres() {
        true => ("gen_random_uuid()::text", "'k' || (n % 50)"),
        false => ("UUID()", "CONCAT('k', n % 50)"),
    };
    let event = format!("{id}, 't', 'T', {key}, 'x', '{{}}', n");
    let columns = "event_id, topic, event_type, biz_key, payload, headers, created_at";
    for (end, more, values) in [
        ("", "", ""),
        ("_later", ", due_at, attempts, trail", ", n, n % 2, '[]'"),
        ("_dead", ", seq, attempts, trail, dead_at", ", n, 1, '[]', n"),
        // In every day of the ring.
        ("_sent", ", seq, attempts, sent_at", ", n, 1, n * 14000"),
    ] {
        let sql = format!(
            "INSERT INTO {table}{end} ({columns}{more}) SELECT {event}{values} FROM {numbers}"
        );
        session.run(sql).await.unwrap();
    }
    let sql = format!(
        "INSERT INTO {table}_inbox SELECT 'g', {id}, 'PROCESSED', 1, 1, 0, NULL, n, n \
         FROM {numbers}"
    );
    session.run(sql).await.unwrap();
}

/// Lets the server measure its tables.
async fn measure(session: &mut Session, table: &str) {
    if session.is_postgres() {
        return session.run("VACUUM ANALYZE").await.unwrap();
    }
    let all = ["", "_later", "_dead", "_sent", "_inbox", "_lease", "_tally"];
    let all: Vec<String> = all.iter().map(|end| format!("{table}{end}")).collect();
    session.run(format!("ANALYZE TABLE {}", all.join(", "))).await.unwrap();
}

async fn plan(outbox: &dyn Outbox) -> Finding {
    let findings = outbox.examine().await.unwrap();
    findings.into_iter().find(|finding| finding.what == "plan").expect("the doctor asks for plans")
}

async fn every_statement_is_served_by_index_with_few_rows_and_with_many(server: &str) {
    let url = need(server).detail("url").to_owned();
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), ..Setup::new(url.clone()) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut session = Session::open(&url).await.unwrap();
    for rows in [0, 10, 990, 99_000] {
        fill(&mut session, &table, rows).await;
        // With sizes that nobody has measured since, and with those that are right.
        for measured in [false, true] {
            if measured {
                measure(&mut session, &table).await;
            }
            let Finding { grade, detail, .. } = plan(&*outbox).await;
            assert_eq!(grade, Grade::Good, "{rows} more rows, measured: {measured}: {detail}");
        }
    }
    for (of, index, statement) in
        [("later", "later_due", "due_later"), ("sent", "sent_id", "find_sent_id")]
    {
        let drop = match session.is_postgres() {
            true => format!("DROP INDEX {table}_{index}"),
            false => format!("DROP INDEX {table}_{index} ON {table}_{of}"),
        };
        session.run(drop).await.unwrap();
        let plan = plan(&*outbox).await;
        assert_eq!(plan.grade, Grade::Bad);
        assert!(plan.detail.contains(statement), "{plan:?}");
        assert!(plan.detail.contains(&format!("{table}_{index}")), "{plan:?}");
    }
    outbox.close().await;
}

servers!(every_statement_is_served_by_index_with_few_rows_and_with_many);
