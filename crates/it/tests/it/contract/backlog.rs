//! A lane beside another whose destination refuses everything: it passes that backlog once, and
//! finds its own rows among it, whenever they were committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Order, Outcome, Receipt, Source, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

const ROWS: i64 = 200_000;

fn want() -> Want {
    Want { limit: 100, bytes: 1 << 20, lease: Duration::from_secs(600) }
}

async fn outbox(server: &str, strategy: Strategy) -> (Setup, Arc<dyn Outbox>, Arc<dyn Source>) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, strategy, ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let topics = Topics::of(vec![("a.*".parse().unwrap(), true)]);
    let lane = outbox.lane(Lane { topics, order: Order::Hold });
    (setup, outbox, lane)
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

async fn passes_once(server: &str, strategy: Strategy) {
    let (setup, outbox, lane) = outbox(server, strategy).await;
    let mut session = Session::open(&setup.url).await.unwrap();
    delayed(&mut session, &setup.table, "b.x", ROWS).await;
    hot(&mut session, &setup.table, "b.x", ROWS / 5).await;
    // As many claims as it takes to pass all of it.
    let began = Instant::now();
    for _ in 0..6 {
        assert_eq!(lane.claim(&want()).await.unwrap(), []);
    }
    let passing = began.elapsed();
    delayed(&mut session, &setup.table, "a.x", 40).await;
    hot(&mut session, &setup.table, "a.x", 40).await;
    let began = Instant::now();
    assert_eq!(drain(&lane).await, 80);
    let took = began.elapsed();
    assert!(took < passing, "the backlog was read again: in {took:?}, after {passing:?}");
    outbox.close().await;
}

servers!(the_backlog_of_another_lane_is_passed_once);

#[tokio::test]
async fn postgres_finds_rows_among_a_passed_backlog_that_were_committed_late() {
    finds_late(Strategy::Own).await;
}

#[tokio::test]
async fn postgres_whose_relays_compete_finds_rows_in_a_passed_backlog_that_were_committed_late() {
    finds_late(Strategy::Cas).await;
}

async fn finds_late(strategy: Strategy) {
    let (setup, outbox, lane) = outbox("postgres", strategy).await;
    let (url, table) = (&setup.url, &setup.table);
    let mut early = Session::open(url).await.unwrap();
    early.run("BEGIN").await.unwrap();
    delayed(&mut early, table, "a.x", 3).await;
    hot(&mut early, table, "a.x", 2).await;
    let mut session = Session::open(url).await.unwrap();
    delayed(&mut session, table, "b.x", 50).await;
    hot(&mut session, table, "b.x", 50).await;
    for _ in 0..3 {
        assert_eq!(lane.claim(&want()).await.unwrap(), [], "nothing of it is committed");
    }
    early.run("COMMIT").await.unwrap();
    assert_eq!(drain(&lane).await, 5);
    outbox.close().await;
}
