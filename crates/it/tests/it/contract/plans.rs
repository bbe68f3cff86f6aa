//! How a server means to run every statement, with few rows and with many: what the doctor says;
//! and how many rows are open then.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use it::instance::Instance;
use it::session::Session;
use it::site::Site;
use store::{Finding, Grade, Outbox};

use super::opened::{Trial, ways};

const PATIENCE: Duration = Duration::from_secs(60);
/// The table of a site.
const TABLE: &str = "outbox";

/// What lets a server take a million rows in soon. It is the test's own, which nothing outlives.
fn roomy(server: &str) -> &'static [&'static str] {
    const POOL: &str = "--innodb-buffer-pool-size=512M";
    match server {
        "postgres-13" | "postgres" | "postgres-18" => {
            &["-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB"]
        }
        "mysql" => &[POOL, "--innodb-redo-log-capacity=512M", "--skip-log-bin"],
        _ => &[POOL, "--innodb-log-file-size=512M", "--skip-log-bin"],
    }
}

/// Fills the four tables and the inbox: `more` rows of each, after those that are there. They have
/// identities that grow, as real ones do.
async fn fill(session: &mut Session, there: i64, more: i64) {
    let (numbers, n) = (session.numbers(more), format!("(n + {there})"));
    let rest = "'-0000-7000-8000-000000000000'";
    let (id, key) = match session.is_postgres() {
        true => (format!("lpad(to_hex({n}), 8, '0') || {rest}"), format!("'k' || {n} % 50")),
        false => (
            format!("CONCAT(LPAD(LOWER(HEX({n})), 8, '0'), {rest})"),
            format!("CONCAT('k', {n} % 50)"),
        ),
    };
    // A relay that begins reads every key that waits for another attempt.
    let failed = format!("CASE WHEN {n} % 20 = 0 THEN 1 ELSE 0 END");
    let event = format!("{id}, 't', 'T', {key}, 'x', '{{}}'");
    let columns = "event_id, topic, event_type, biz_key, payload, headers, created_at";
    // What was sent was created when its identity says, and half of it is found by that.
    let (sent, made, stray) = match session.is_postgres() {
        true => (", seq, attempts, sent_at, stray", format!("{n}::bigint << 16"), ", n % 2 = 0"),
        false => (", seq, attempts, sent_at", n.clone(), ""),
    };
    for (end, created, more, values) in [
        ("", &n, "", String::new()),
        ("_later", &n, ", due_at, attempts, trail", format!(", {n}, {failed}, '[]'")),
        ("_dead", &n, ", seq, attempts, trail, dead_at", format!(", {n}, 1, '[]', {n}")),
        // In every day of the ring.
        ("_sent", &made, sent, format!(", {n}, 1, {n} * 1400{stray}")),
    ] {
        let sql = format!(
            "INSERT INTO {TABLE}{end} ({columns}{more}) SELECT {event}, {created}{values} \
             FROM {numbers}"
        );
        session.run(sql).await.unwrap();
    }
    let sql = format!(
        "INSERT INTO {TABLE}_inbox SELECT 'g', {id}, 'PROCESSED', 1, 1, 0, NULL, {n}, {n} \
         FROM {numbers}"
    );
    session.run(sql).await.unwrap();
}

/// Lets the server measure its tables.
async fn measure(session: &mut Session) {
    if session.is_postgres() {
        return session.run("VACUUM ANALYZE").await.unwrap();
    }
    let all = ["", "_later", "_dead", "_sent", "_inbox", "_lease", "_tally"];
    let all: Vec<String> = all.iter().map(|end| format!("{TABLE}{end}")).collect();
    session.run(format!("ANALYZE TABLE {}", all.join(", "))).await.unwrap();
}

async fn plan(outbox: &dyn Outbox) -> Finding {
    let findings = outbox.examine().await.unwrap();
    findings.into_iter().find(|finding| finding.what == "plan").expect("the doctor asks for plans")
}

/// Has all work done, each piece about a few of the rows that are there. Returns how many there are
/// then: what was worn is made up for.
async fn work(server: &str, url: &str, clock: &Arc<AtomicI64>, mut there: i64) -> i64 {
    let some = if there < 1_000 { 1 } else { 30 };
    let mut trial = Trial::new(url, clock, some).await;
    let mut session = Session::open(url).await.unwrap();
    for way in ways(server) {
        trial.relays(way).await;
        let worn = trial.worn(way.1);
        fill(&mut session, there, worn).await;
        there += worn;
    }
    trial.others(there).await;
    trial.end().await;
    there
}

async fn with_few_rows_and_with_many_every_statement_is_served_by_index_and_opens_only_its_rows(
    server: &str,
) {
    let instance = Instance::start_with(server, roomy(server)).unwrap();
    let outbox = Site::on(&instance.url, PATIENCE).await.unwrap().outbox;
    let mut session = Session::open(&instance.url).await.unwrap();
    let (mut there, clock) = (0, Arc::new(AtomicI64::new(0)));
    for rows in [0, 10, 1_000, 1_000_000] {
        fill(&mut session, there, rows - there).await;
        there = rows;
        // With sizes that nobody has measured since, and with those that are right.
        for measured in [false, true] {
            if measured {
                measure(&mut session).await;
            }
            let Finding { grade, detail, .. } = plan(&*outbox).await;
            assert_eq!(grade, Grade::Good, "{rows} rows, measured: {measured}: {detail}");
        }
        if rows > 0 {
            there = work(server, &instance.url, &clock, there).await;
        }
    }
    for (of, index, statement) in
        [("later", "later_due", "due_later"), ("sent", "sent_id", "find_sent_id")]
    {
        let drop = match session.is_postgres() {
            true => format!("DROP INDEX {TABLE}_{index}"),
            false => format!("DROP INDEX {TABLE}_{index} ON {TABLE}_{of}"),
        };
        session.run(drop).await.unwrap();
        let plan = plan(&*outbox).await;
        assert_eq!(plan.grade, Grade::Bad);
        assert!(plan.detail.contains(statement), "{plan:?}");
        assert!(plan.detail.contains(&format!("{TABLE}_{index}")), "{plan:?}");
    }
    outbox.close().await;
}

servers!(with_few_rows_and_with_many_every_statement_is_served_by_index_and_opens_only_its_rows);

#[tokio::test]
async fn on_postgres_13() {
    with_few_rows_and_with_many_every_statement_is_served_by_index_and_opens_only_its_rows(
        "postgres-13",
    )
    .await;
}

#[tokio::test]
async fn on_postgres_18() {
    with_few_rows_and_with_many_every_statement_is_served_by_index_and_opens_only_its_rows(
        "postgres-18",
    )
    .await;
}
