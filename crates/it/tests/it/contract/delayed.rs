//! A producer of delayed events beside a relay that moves rows into the same table: where that
//! gives its numbers to one statement after the other, it waits for one at the most, and never
//! until the relay's transaction ends.

use std::time::{Duration, Instant};

use event::{Cause, Claim, Code, Event, Outcome, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Setup};

const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: usize = 300;
const WANT: Want = Want { limit: ROWS, bytes: 1 << 20, lease: Duration::from_secs(600) };

async fn a_producer_of_a_delayed_event_waits_for_no_relays_transaction(server: &str) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), shards: 1, ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let events: Vec<Event> = (0..ROWS).map(|_| Event::new("t", "T", "{}")).collect();
    outbox.put(&events, None).await.unwrap();
    let claims = lane.claim(&WANT).await.unwrap();
    assert_eq!(claims.len(), ROWS);

    // Whoever moves rows copies them first, and then cannot take this one out.
    let (mut gate, mut producer) =
        (Session::open(&setup.url).await.unwrap(), Session::open(&setup.url).await.unwrap());
    gate.run(format!("BEGIN; SELECT seq FROM {table} WHERE shard = 0 LIMIT 1 FOR UPDATE"))
        .await
        .unwrap();
    let settling = tokio::spawn(async move {
        let cause = Cause::new(Code::SinkTimeout, "too late");
        let retry = Outcome::Retry { after: Duration::from_secs(600), cause };
        let ends: Vec<_> = claims.iter().map(|claim: &Claim| claim.end(retry.clone())).collect();
        lane.settle(&ends).await
    });
    let session = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; \
                   SET SESSION innodb_lock_wait_timeout = 1";
    producer.run(session).await.unwrap();
    let (copied, until) =
        (format!("SELECT COUNT(*) FROM {table}_later"), Instant::now() + PATIENCE);
    while producer.number(&*copied).await.unwrap() < ROWS as i64 {
        assert!(!settling.is_finished() && Instant::now() < until, "nothing was copied");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let insert = format!(
        "INSERT INTO {table}_later (topic, event_type, payload, due_at) VALUES ('t', 'T', 'x', 1)"
    );
    producer.run(insert).await.unwrap();
    assert!(!settling.is_finished(), "the relay's transaction is open");
    gate.commit().await.unwrap();
    assert_eq!(settling.await.unwrap().unwrap().settled, ROWS);
    outbox.close().await;
}

#[tokio::test]
async fn on_mysql() {
    a_producer_of_a_delayed_event_waits_for_no_relays_transaction("mysql").await;
}

#[tokio::test]
async fn on_mariadb() {
    a_producer_of_a_delayed_event_waits_for_no_relays_transaction("mariadb").await;
}

#[tokio::test]
async fn on_mariadb_10_5() {
    a_producer_of_a_delayed_event_waits_for_no_relays_transaction("mariadb-10.5").await;
}
