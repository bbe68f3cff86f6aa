//! A producer rings after its commit, and relays of other processes that listen look at once. A
//! ring that is lost costs a moment: they look by themselves as well.

use std::sync::Arc;
use std::time::Duration;

use event::{Event, Order, Source, StoreError, Topics, Want};
use it::session::Session;
use it::world::need;
use postbox::Ring;
use sqlx::postgres::PgListener;
use store::{Lane, Outbox, Setup};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the patience: what returns earlier was rung for.
const NAP: Duration = Duration::from_secs(600);

/// An outbox with a relay that listens, and nothing to relay.
struct Quiet {
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    url: String,
    table: String,
    session: Session,
}

impl Quiet {
    async fn new() -> Quiet {
        let url = need("postgres").detail("url").to_owned();
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup { table: table.clone(), listen: true, ..Setup::new(&*url) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
        let session = Session::open(&url).await.unwrap();
        // The first ring is the relay's own, when it has begun to listen; nothing else is due.
        tokio::time::timeout(PATIENCE, lane.wait(NAP)).await.expect("it listens");
        Quiet { outbox, lane, url, table, session }
    }

    /// Waits until the relay listens, and returns the server's process that does.
    async fn until_it_listens(&mut self) -> i64 {
        let ask = format!(
            "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity \
             WHERE query ILIKE 'LISTEN%{}%' AND pid <> pg_backend_pid()",
            self.table
        );
        let listens = async {
            loop {
                let pid = self.session.number(&*ask).await.unwrap();
                if pid > 0 {
                    return pid;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listens).await.unwrap()
    }

    /// Takes in every ring so far, and naps until the next one.
    async fn nap(&self) -> JoinHandle<()> {
        let want = Want { limit: 1, bytes: 1 << 20, lease: Duration::from_secs(10) };
        assert_eq!(self.lane.claim(&want).await.unwrap(), []);
        let lane = self.lane.clone();
        tokio::spawn(async move { lane.wait(NAP).await })
    }

    async fn ring_in_sql(&mut self) {
        self.session.run(format!("SELECT pg_notify('{}', '')", self.table)).await.unwrap();
    }
}

async fn wakes(nap: JoinHandle<()>) {
    tokio::time::timeout(PATIENCE, nap).await.expect("nobody has heard the ring").unwrap();
}

#[tokio::test]
async fn a_listening_relay_hears_a_ring_in_plain_sql() {
    let mut quiet = Quiet::new().await;
    let nap = quiet.nap().await;
    quiet.ring_in_sql().await;
    wakes(nap).await;
    quiet.outbox.close().await;
}

#[tokio::test]
async fn a_listening_relay_hears_the_library_of_another_process() {
    let quiet = Quiet::new().await;
    let ring = Ring::across(&quiet.url, &quiet.table).await.unwrap();
    let nap = quiet.nap().await;
    ring.ring();
    wakes(nap).await;
    quiet.outbox.close().await;
}

#[tokio::test]
async fn a_relay_that_was_cut_off_listens_again() {
    let mut quiet = Quiet::new().await;
    let pid = quiet.until_it_listens().await;
    quiet.session.run(format!("SELECT pg_terminate_backend({pid})")).await.unwrap();
    while quiet.until_it_listens().await == pid {}
    let nap = quiet.nap().await;
    quiet.ring_in_sql().await;
    wakes(nap).await;
    quiet.outbox.close().await;
}

#[tokio::test]
async fn a_closed_handle_listens_no_more() {
    let mut quiet = Quiet::new().await;
    let pid = quiet.until_it_listens().await;
    quiet.outbox.close().await;
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    let over = async { while quiet.session.number(&*gone).await.unwrap() > 0 {} };
    tokio::time::timeout(PATIENCE, over).await.unwrap();
}

#[tokio::test]
async fn rings_that_come_together_are_one() {
    let url = need("postgres").detail("url").to_owned();
    let table = format!("t{:016x}", fastrand::u64(..));
    let mut ears = PgListener::connect(&url).await.unwrap();
    ears.listen(&table).await.unwrap();
    let ring = Ring::across(&url, &table).await.unwrap();
    (0..1000).for_each(|_| ring.ring());
    tokio::time::timeout(PATIENCE, ears.recv()).await.unwrap().unwrap();
    // Another one comes after all of those.
    let end = sqlx::query("SELECT pg_notify($1, 'end')").bind(&table);
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    end.execute(&pool).await.unwrap();
    let mut heard = 1;
    while ears.recv().await.unwrap().payload() != "end" {
        heard += 1;
    }
    assert!(heard < 100, "{heard} of 1000 rings went out");
}

#[tokio::test]
async fn whoever_cannot_ring_is_told_so() {
    let url = need("postgres").detail("url").replace("postgres@", "nobody-here@");
    let error = Ring::across(&url, "outbox").await.err().expect("the server knows no such user");
    assert!(error.to_string().contains("nobody-here"), "{error}");
}

#[tokio::test]
async fn a_ring_never_stands_for_an_event() {
    let quiet = Quiet::new().await;
    let other = Setup { table: quiet.table.clone(), ..Setup::new(&*quiet.url) };
    let producer = store::open(&other).await.unwrap();
    let nap = quiet.nap().await;
    // Nobody rings over there for this one: the relay finds it by itself.
    producer.put(&[Event::new("t", "T", "{}")], None).await.unwrap();
    wakes(nap).await;
    let want = Want { limit: 1, bytes: 1 << 20, lease: Duration::from_secs(10) };
    assert_eq!(quiet.lane.claim(&want).await.unwrap().len(), 1);
    quiet.outbox.close().await;
}

#[tokio::test]
async fn where_nobody_can_ring_listening_is_refused() {
    for url in ["sqlite:orders.sqlite3", "mysql://me@127.0.0.1/orders"] {
        let setup = Setup { listen: true, ..Setup::new(url) };
        let Err(StoreError::Broken(cause)) = store::open(&setup).await else { panic!("{url}") };
        assert!(cause.detail.contains("only PostgreSQL can tell"), "{cause}");
        Ring::across(url, "outbox").await.err().expect("nobody can ring there");
    }
}
