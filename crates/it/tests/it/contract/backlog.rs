//! A lane beside another whose destination refuses everything: it passes that backlog once, and
//! finds its own rows among it, whenever they were committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Order, Outcome, Receipt, Source, Topics, Want};
use it::instance::Instance;
use it::session::Session;
use it::site::Site;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

const ROWS: i64 = 20_000;

const PATIENCE: Duration = Duration::from_secs(60);

fn want() -> Want {
    Want { limit: 100, bytes: 1 << 20, lease: Duration::from_secs(600) }
}

async fn outbox(url: &str, strategy: Strategy) -> (Setup, Arc<dyn Outbox>, Arc<dyn Source>) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, strategy, ..Setup::new(url) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let lane = lane(&outbox);
    (setup, outbox, lane)
}

fn lane(outbox: &Arc<dyn Outbox>) -> Arc<dyn Source> {
    let topics = Topics::of(vec![("a.*".parse().unwrap(), true)]);
    outbox.lane(Lane { topics, order: Order::Hold })
}

/// Puts rows down that have been due for a minute.
async fn delayed(session: &mut Session, table: &str, topic: &str, rows: i64) {
    let (key, now) = match session.is_postgres() {
        true => ("'k' || n", "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"),
        false => ("CONCAT('k', n)", "FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)"),
    };
    let sql = format!(
        "INSERT INTO {table}_later (topic, event_type, biz_key, payload, attempts, due_at) \
         SELECT '{topic}', 'T', {key}, '{{}}', 1, {now} - 60000 FROM {}",
        session.numbers(rows)
    );
    session.run(sql).await.unwrap();
}

/// Claims until nothing more comes. Returns how many came, all of them published.
async fn drain(lane: &Arc<dyn Source>) -> usize {
    let mut came = 0;
    loop {
        let claims = lane.claim(&want()).await.unwrap();
        if claims.is_empty() {
            return came;
        }
        came += claims.len();
        let done = Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done.clone())).collect();
        assert_eq!(lane.settle(&ends).await.unwrap().settled, claims.len());
    }
}

/// Puts hot rows down.
async fn hot(session: &mut Session, table: &str, topic: &str, rows: i64) {
    let key = if session.is_postgres() { "'k' || n" } else { "CONCAT('k', n)" };
    let sql = format!(
        "INSERT INTO {table} (topic, event_type, biz_key, payload) \
         SELECT '{topic}', 'T', {key}, '{{}}' FROM {}",
        session.numbers(rows)
    );
    session.run(sql).await.unwrap();
}

#[tokio::test]
async fn postgres_whose_relays_compete_passes_the_backlog_of_another_lane_once() {
    passes_once("postgres", Strategy::SkipLocked).await;
}

async fn the_backlog_of_another_lane_is_passed_once(server: &str) {
    passes_once(server, Strategy::Own).await;
}

/// It has a server of its own: whatever ends there may have written below what was passed, and has
/// the lane look again. A vacuum that comes by itself ends there too.
async fn passes_once(server: &str, strategy: Strategy) {
    let alone: &[&str] = if server == "postgres" { &["-c", "autovacuum=off"] } else { &[] };
    let instance = Instance::start_with(server, alone).unwrap();
    let version = need(server).version;
    Site::on(&instance.url, PATIENCE).await.unwrap().outbox.close().await;
    let (setup, outbox, _) = outbox(&instance.url, strategy).await;
    outbox.close().await;
    let mut session = Session::open(&instance.url).await.unwrap();
    if version.contains("MariaDB") {
        session.run("SET GLOBAL userstat = 1").await.unwrap();
    }
    delayed(&mut session, &setup.table, "b.x", ROWS).await;
    hot(&mut session, &setup.table, "b.x", ROWS / 5).await;
    let (passing, more) = match session.is_postgres() {
        true => count_apart(&setup, &mut session, &version).await,
        false => count_along(&setup, &mut session, &version).await,
    };
    session.close().await.unwrap();
    assert!(passing >= ROWS + ROWS / 5, "{passing} rows were read to pass the backlog");
    assert!(more < ROWS / 4, "{more} rows were read after {passing}: the backlog was read again");
}

/// Counts the rows that are read to pass a backlog, and those that are read once it is passed,
/// where sessions tell that at their end: one relay passes it; another does too, and goes on.
async fn count_apart(setup: &Setup, session: &mut Session, version: &str) -> (i64, i64) {
    let before = read(session, version, &setup.table).await;
    let (outbox, lane) = pass(setup).await;
    lane.release().await.unwrap();
    outbox.close().await;
    let passed = read(session, version, &setup.table).await;
    let (outbox, lane) = pass(setup).await;
    find(&lane, session, &setup.table).await;
    outbox.close().await;
    let passing = passed - before;
    (passing, read(session, version, &setup.table).await - passed - passing)
}

/// Counts the same where every statement tells at once. There, what is new is read again until no
/// transaction can have been open at the first look.
async fn count_along(setup: &Setup, session: &mut Session, version: &str) -> (i64, i64) {
    let before = read(session, version, &setup.table).await;
    let (outbox, lane) = pass(setup).await;
    let until = Instant::now() + PATIENCE;
    let mut passed = read(session, version, &setup.table).await;
    loop {
        assert_eq!(lane.claim(&want()).await.unwrap(), []);
        let now = read(session, version, &setup.table).await;
        let again = now - std::mem::replace(&mut passed, now);
        if again < ROWS / 4 {
            break;
        }
        assert!(Instant::now() < until, "every claim reads {again} rows");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    find(&lane, session, &setup.table).await;
    outbox.close().await;
    (passed - before, read(session, version, &setup.table).await - passed)
}

/// Puts rows of the lane's own down, and takes them all.
async fn find(lane: &Arc<dyn Source>, session: &mut Session, table: &str) {
    delayed(session, table, "a.x", 40).await;
    hot(session, table, "a.x", 40).await;
    assert_eq!(drain(lane).await, 80);
}

/// Opens a lane and makes as many claims as it takes to pass all of another's.
async fn pass(setup: &Setup) -> (Arc<dyn Outbox>, Arc<dyn Source>) {
    let outbox = store::open(setup).await.unwrap();
    let lane = lane(&outbox);
    for _ in 0..6 {
        assert_eq!(lane.claim(&want()).await.unwrap(), []);
    }
    (outbox, lane)
}

/// Returns how many rows of an outbox the server has read for everybody else in this database.
pub(super) async fn read(session: &mut Session, version: &str, table: &str) -> i64 {
    const MARIADB: &str = "SELECT CAST(COALESCE(SUM(rows_read), 0) AS SIGNED) \
        FROM information_schema.table_statistics \
        WHERE table_schema = DATABASE() AND table_name IN";
    const MYSQL: &str = "SELECT CAST(COALESCE(SUM(count_fetch), 0) AS SIGNED) \
        FROM performance_schema.table_io_waits_summary_by_table \
        WHERE object_schema = DATABASE() AND object_name IN";
    const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND backend_type = 'client backend' \
            AND pid <> pg_backend_pid()";
    let tables = format!("('{table}', '{table}_later')");
    if !session.is_postgres() {
        let sum = if version.contains("MariaDB") { MARIADB } else { MYSQL };
        return session.number(format!("{sum} {tables}")).await.unwrap();
    }
    // A session tells what it has read at its end, and only then is no longer seen.
    let until = Instant::now() + PATIENCE;
    while session.number(OTHERS).await.unwrap() > 0 {
        assert!(Instant::now() < until, "somebody stays connected");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let sum = format!(
        "SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN {tables}) \
         + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN {tables}))::bigint"
    );
    session.number(sum).await.unwrap()
}

servers!(the_backlog_of_another_lane_is_passed_once);

#[tokio::test]
async fn postgres_finds_rows_among_a_passed_backlog_that_were_committed_late() {
    finds_late("postgres", Strategy::Own, Duration::ZERO).await;
}

#[tokio::test]
async fn postgres_whose_relays_compete_finds_rows_in_a_passed_backlog_that_were_committed_late() {
    finds_late("postgres", Strategy::Cas, Duration::ZERO).await;
}

#[tokio::test]
async fn mysql_finds_rows_among_a_passed_backlog_that_were_committed_late_with_a_full_look() {
    finds_late("mysql", Strategy::Own, FULL).await;
}

#[tokio::test]
async fn mariadb_finds_rows_among_a_passed_backlog_that_were_committed_late_with_a_full_look() {
    finds_late("mariadb", Strategy::Own, FULL).await;
}

/// How long it may take until a full look has come, where no snapshot tells who was open.
const FULL: Duration = Duration::from_secs(40);
/// Longer than numbers count as new there.
const LATE: Duration = Duration::from_secs(5);

async fn finds_late(server: &str, strategy: Strategy, within: Duration) {
    let (setup, outbox, lane) = outbox(need(server).detail("url"), strategy).await;
    let (url, table) = (&setup.url, &setup.table);
    let mut early = Session::open(url).await.unwrap();
    early.run("BEGIN").await.unwrap();
    delayed(&mut early, table, "a.x", 3).await;
    hot(&mut early, table, "a.x", 2).await;
    let mut session = Session::open(url).await.unwrap();
    delayed(&mut session, table, "b.x", 50).await;
    hot(&mut session, table, "b.x", 50).await;
    let began = Instant::now();
    for looks in 0.. {
        assert_eq!(lane.claim(&want()).await.unwrap(), [], "nothing of it is committed");
        if looks >= 2 && (within.is_zero() || began.elapsed() > LATE) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    early.run("COMMIT").await.unwrap();
    let (mut came, until) = (drain(&lane).await, Instant::now() + within);
    while came < 5 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
        came += drain(&lane).await;
    }
    assert_eq!(came, 5);
    outbox.close().await;
}
