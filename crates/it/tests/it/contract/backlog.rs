//! A lane beside another whose destination refuses everything: it passes that backlog once, and
//! finds its own rows among it, whenever they were committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Order, Outcome, Receipt, Source, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup};

const ROWS: i64 = 200_000;

fn want() -> Want {
    Want { limit: 100, bytes: 1 << 20, lease: Duration::from_secs(600) }
}

async fn outbox(server: &str) -> (Setup, Arc<dyn Outbox>, Arc<dyn Source>) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, ..Setup::new(need(server).detail("url")) };
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

async fn the_backlog_of_another_lane_is_passed_once(server: &str) {
    let (setup, outbox, lane) = outbox(server).await;
    let mut session = Session::open(&setup.url).await.unwrap();
    delayed(&mut session, &setup.table, "b.x", ROWS).await;
    // As many claims as it takes to pass all of it.
    for claim in 1..=5 {
        let began = Instant::now();
        assert_eq!(lane.claim(&want()).await.unwrap(), []);
        println!("claim {claim} beside {ROWS} rows of another lane: {:?}", began.elapsed());
    }
    delayed(&mut session, &setup.table, "a.x", 40).await;
    let began = Instant::now();
    assert_eq!(drain(&lane).await, 40);
    println!("40 rows claimed and settled among them: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(1), "the backlog was read again");
    outbox.close().await;
}

servers!(the_backlog_of_another_lane_is_passed_once);

#[tokio::test]
async fn postgres_finds_rows_among_a_passed_backlog_that_were_committed_late() {
    let (setup, outbox, lane) = outbox("postgres").await;
    let (url, table) = (&setup.url, &setup.table);
    let mut early = Session::open(url).await.unwrap();
    early.run("BEGIN").await.unwrap();
    delayed(&mut early, table, "a.x", 3).await;
    let mut session = Session::open(url).await.unwrap();
    delayed(&mut session, table, "b.x", 50).await;
    for _ in 0..3 {
        assert_eq!(lane.claim(&want()).await.unwrap(), [], "nothing of it is committed");
    }
    early.run("COMMIT").await.unwrap();
    assert_eq!(drain(&lane).await, 3);
    outbox.close().await;
}
