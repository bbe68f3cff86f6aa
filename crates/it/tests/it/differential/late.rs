//! Transactions that commit in another order than they draw numbers: nothing is lost, and each
//! writer's events come in its order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{EventId, Order, Outcome, Receipt, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};
use tokio::task::JoinSet;

const WRITERS: usize = 6;
const ROUNDS: usize = 60;
/// Shorter than the time after which a full look would find what was missed.
const PATIENCE: Duration = Duration::from_secs(25);
/// Longer than the time after which a full look comes, so that a writer outlasts one.
const LONG: Duration = Duration::from_secs(32);

type Came = Vec<(String, EventId)>;

async fn insert(session: &mut Session, table: &str, key: &str) -> EventId {
    let id = EventId::new();
    let text = format!(
        "INSERT INTO {table} (event_id, topic, event_type, biz_key, payload) \
         VALUES ('{id}', 't', 'T', '{key}', '{{}}')"
    );
    session.run(text).await.unwrap();
    id
}

/// Writes in transactions that stay open for a random while; some of it is rolled back. What stands
/// in no savepoint has no newer transaction within its own.
async fn write(url: String, table: String, writer: usize) -> Vec<(String, EventId)> {
    let mut session = Session::open(&url).await.unwrap();
    let (mut committed, key) = (Vec::new(), format!("w{writer}"));
    for _ in 0..ROUNDS {
        session.run("BEGIN").await.unwrap();
        let mut here = Vec::new();
        for _ in 0..fastrand::usize(1..4) {
            let apart = fastrand::bool();
            if apart {
                session.run("SAVEPOINT part").await.unwrap();
            }
            let id = insert(&mut session, &table, &key).await;
            if apart && fastrand::bool() {
                session.run("ROLLBACK TO SAVEPOINT part").await.unwrap();
            } else {
                if apart {
                    session.run("RELEASE SAVEPOINT part").await.unwrap();
                }
                here.push((key.clone(), id));
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..12))).await;
        }
        if fastrand::u8(..6) == 0 {
            session.run("ROLLBACK").await.unwrap();
        } else {
            session.run("COMMIT").await.unwrap();
            committed.extend(here);
        }
    }
    committed
}

/// Inserts in two phases. Returns the event, and what commits it.
async fn prepare(session: &mut Session, table: &str) -> (EventId, String) {
    let begin = match session.is_postgres() {
        true => "BEGIN".to_owned(),
        false => format!("XA START '{table}'"),
    };
    session.run(begin).await.unwrap();
    let id = insert(session, table, "prepared").await;
    if session.is_postgres() {
        session.run(format!("PREPARE TRANSACTION '{table}'")).await.unwrap();
        return (id, format!("COMMIT PREPARED '{table}'"));
    }
    session.run(format!("XA END '{table}'; XA PREPARE '{table}'")).await.unwrap();
    (id, format!("XA COMMIT '{table}'"))
}

/// Publishes whatever comes, until as much has come as was committed.
async fn relay(outbox: Arc<dyn Outbox>, came: Arc<std::sync::Mutex<Came>>) {
    let lane = outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
    let want = Want { limit: 7, bytes: 1 << 20, lease: Duration::from_secs(60) };
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

async fn nothing_that_commits_late_is_lost_and_each_writers_order_is_kept(server: &str) {
    let (committed, came) = run(server, Strategy::Own, Duration::ZERO).await;
    assert_eq!(lines(&came), lines(&committed), "out of order");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_loses_no_row_that_commits_late_where_relays_compete() {
    run("postgres", Strategy::SkipLocked, Duration::ZERO).await;
    run("postgres", Strategy::Cas, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_loses_no_row_that_commits_late_where_relays_compete() {
    run("mysql", Strategy::SkipLocked, Duration::ZERO).await;
    run("mysql", Strategy::Preempt, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_loses_no_row_that_commits_late_where_relays_compete() {
    run("mariadb", Strategy::SkipLocked, Duration::ZERO).await;
    run("mariadb-10.5", Strategy::Cas, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_outlasts_every_look_loses_nothing_where_relays_compete() {
    let on = |server: &'static str, strategy| run(server, strategy, LONG);
    tokio::join!(on("postgres", Strategy::SkipLocked), on("mariadb", Strategy::SkipLocked));
}

async fn a_writer_that_outlasts_every_look_loses_nothing(server: &str) {
    let (committed, came) = run(server, Strategy::Own, LONG).await;
    assert_eq!(lines(&came), lines(&committed), "out of order");
}

/// Writes and relays until all that was committed has come, each once. Returns both. Two writers
/// stay open for as long as the others write, and `longer`.
async fn run(server: &str, strategy: Strategy, longer: Duration) -> (Came, Came) {
    let url = need(server).detail("url").to_owned();
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), strategy, ..Setup::new(url.clone()) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut long = Session::open(&url).await.unwrap();
    long.run("BEGIN").await.unwrap();
    let first = insert(&mut long, &table, "long").await;
    let mut two_phase = Session::open(&url).await.unwrap();
    let (prepared, commit) = prepare(&mut two_phase, &table).await;
    let came = Arc::<std::sync::Mutex<Came>>::default();
    let mut relays = JoinSet::new();
    for _ in 0..2 {
        relays.spawn(relay(store::open(&setup).await.unwrap(), came.clone()));
    }
    let mut writers = JoinSet::new();
    (0..WRITERS).for_each(|n| drop(writers.spawn(write(url.clone(), table.clone(), n))));
    let mut committed = writers.join_all().await.concat();
    // By now every relay has read far beyond these two.
    tokio::time::sleep(longer).await;
    long.run("COMMIT").await.unwrap();
    two_phase.run(commit).await.unwrap();
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

mod nothing_that_commits_late_is_lost {
    use super::nothing_that_commits_late_is_lost_and_each_writers_order_is_kept as keeps;

    #[tokio::test(flavor = "multi_thread")]
    async fn on_postgres() {
        keeps("postgres").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_mysql() {
        keeps("mysql").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_mariadb() {
        keeps("mariadb").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_mariadb_10_5() {
        keeps("mariadb-10.5").await;
    }
}

mod a_writer_that_outlasts_every_look {
    use super::a_writer_that_outlasts_every_look_loses_nothing as loses_nothing;

    #[tokio::test(flavor = "multi_thread")]
    async fn on_postgres() {
        loses_nothing("postgres").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_mysql() {
        loses_nothing("mysql").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_mariadb() {
        loses_nothing("mariadb").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_mariadb_10_5() {
        loses_nothing("mariadb-10.5").await;
    }
}
