//! Transactions that commit in another order than they draw numbers: nothing is lost, and each
//! writer's events come in its order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{EventId, Order, Outcome, Receipt, Topics, Want};
use it::world::need;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store::{Lane, Outbox, Setup, Strategy};
use tokio::task::JoinSet;

const WRITERS: usize = 6;
const ROUNDS: usize = 60;
/// Shorter than the time after which a full look would find what was missed.
const PATIENCE: Duration = Duration::from_secs(25);

type Came = Vec<(String, EventId)>;

async fn insert(conn: &mut PgConnection, table: &str, key: &str) -> EventId {
    let id = EventId::new();
    let text = format!(
        "INSERT INTO {table} (event_id, topic, event_type, biz_key, payload) \
         VALUES ($1, 't', 'T', $2, '{{}}')"
    );
    let query = sqlx::query(AssertSqlSafe(text)).bind(id.to_string()).bind(key);
    query.execute(conn).await.unwrap();
    id
}

/// Writes in transactions that stay open for a random while; some of it is rolled back.
async fn write(url: String, table: String, writer: usize) -> Vec<(String, EventId)> {
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let (mut committed, key) = (Vec::new(), format!("w{writer}"));
    for _ in 0..ROUNDS {
        let mut tx = conn.begin().await.unwrap();
        let mut here = Vec::new();
        for _ in 0..fastrand::usize(1..4) {
            let mut part = tx.begin().await.unwrap();
            let id = insert(&mut part, &table, &key).await;
            if fastrand::u8(..4) == 0 {
                part.rollback().await.unwrap();
            } else {
                part.commit().await.unwrap();
                here.push((key.clone(), id));
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..12))).await;
        }
        if fastrand::u8(..6) == 0 {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            committed.extend(here);
        }
    }
    committed
}

/// Publishes whatever comes, until as much has come as was committed.
async fn relay(outbox: Arc<dyn Outbox>, came: Arc<std::sync::Mutex<Came>>) {
    let lane = outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
    let want = Want { limit: 7, bytes: 1 << 20, lease: Duration::from_secs(3) };
    loop {
        let claims = lane.claim(&want).await.unwrap();
        let told = |claim: &event::Claim| (claim.event.key.clone().unwrap(), claim.event.id);
        came.lock().unwrap().extend(claims.iter().map(told));
        let done = Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done.clone())).collect();
        let settled = lane.settle(&ends).await.unwrap();
        assert!(settled.stale.is_empty(), "{settled:?}");
        if claims.is_empty() {
            lane.wait(Duration::from_millis(50)).await;
        }
    }
}

fn lines(of: &[(String, EventId)]) -> HashMap<&str, Vec<EventId>> {
    let mut lines = HashMap::<&str, Vec<EventId>>::new();
    for (key, id) in of {
        lines.entry(key).or_default().push(*id);
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_loses_no_row_that_commits_late_and_keeps_each_writers_order() {
    let (committed, came) = run(Strategy::Own).await;
    assert_eq!(lines(&came), lines(&committed), "out of order");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_loses_no_row_that_commits_late_where_relays_compete() {
    run(Strategy::SkipLocked).await;
    run(Strategy::Cas).await;
}

/// Writes and relays until all that was committed has come, each once. Returns both.
async fn run(strategy: Strategy) -> (Came, Came) {
    let url = need("postgres").detail("url").to_owned();
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), strategy, ..Setup::new(url.clone()) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut long = PgConnection::connect(&url).await.unwrap();
    let mut open = long.begin().await.unwrap();
    let first = insert(&mut open, &table, "long").await;
    let mut two_phase = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut two_phase).await.unwrap();
    let prepared = insert(&mut two_phase, &table, "prepared").await;
    let prepare = format!("PREPARE TRANSACTION '{table}'");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut two_phase).await.unwrap();
    let came = Arc::<std::sync::Mutex<Came>>::default();
    let mut relays = JoinSet::new();
    for _ in 0..2 {
        relays.spawn(relay(store::open(&setup).await.unwrap(), came.clone()));
    }
    let mut writers = JoinSet::new();
    (0..WRITERS).for_each(|n| drop(writers.spawn(write(url.clone(), table.clone(), n))));
    let mut committed = writers.join_all().await.concat();
    open.commit().await.unwrap();
    let commit = format!("COMMIT PREPARED '{table}'");
    sqlx::raw_sql(AssertSqlSafe(commit)).execute(&mut two_phase).await.unwrap();
    committed.extend([("long".to_owned(), first), ("prepared".to_owned(), prepared)]);
    let until = Instant::now() + PATIENCE;
    while came.lock().unwrap().len() < committed.len() && Instant::now() < until {
        if let Some(ended) = relays.try_join_next() {
            ended.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    relays.abort_all();
    let came = came.lock().unwrap().clone();
    let (all, got): (HashSet<_>, HashSet<_>) = (committed.iter().collect(), came.iter().collect());
    assert_eq!(all.difference(&got).collect::<Vec<_>>(), Vec::<&&(String, EventId)>::new(), "lost");
    assert_eq!((came.len(), got.len()), (committed.len(), committed.len()), "made up or twice");
    (committed, came)
}
