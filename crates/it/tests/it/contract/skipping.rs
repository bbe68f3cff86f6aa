//! Relays that compete for the rows of an outbox in MySQL or MariaDB: who waits for what another
//! has open, what is found afterwards, and which servers cannot pass over it.

use std::sync::Arc;
use std::time::Duration;

use event::{Claim, Code, Event, Source, StoreError, Topics, Want};
use futures_util::future::join_all;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

struct Relay {
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
}

impl Relay {
    async fn new(setup: &Setup) -> Relay {
        let outbox = store::open(setup).await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        Relay { outbox, lane }
    }

    async fn ask(&self, limit: usize) -> Result<Vec<Claim>, StoreError> {
        let lease = Duration::from_secs(30);
        self.lane.claim(&Want { limit, bytes: 1 << 20, lease }).await
    }

    async fn put(&self, count: usize) {
        let events: Vec<Event> = (0..count).map(|_| Event::new("t", "T", "{}")).collect();
        self.outbox.put(&events, None).await.unwrap();
    }
}

/// Makes an outbox of one shard, where everybody meets.
async fn outbox(server: &str, strategy: Strategy) -> Setup {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, shards: 1, ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.close().await;
    Setup { strategy, ..setup }
}

/// Opens the first rows of an outbox as another relay does in the middle of its claim.
async fn open(setup: &Setup) -> Session {
    let mut session = Session::open(&setup.url).await.unwrap();
    session.run("BEGIN").await.unwrap();
    let sql = format!("SELECT seq FROM {} ORDER BY seq LIMIT 3 FOR UPDATE", setup.table);
    session.run(sql).await.unwrap();
    session
}

async fn who_skips_waits_for_no_other_and_finds_what_that_one_left(server: &str) {
    let setup = outbox(server, Strategy::SkipLocked).await;
    let one = Relay::new(&setup).await;
    one.put(10).await;
    // A claim that waited would fail: these stay open until it is over.
    let mut other = open(&setup).await;
    assert_eq!(one.ask(4).await.unwrap().len(), 4, "others are there that nobody has open");
    other.run("ROLLBACK").await.unwrap();
    assert_eq!(one.ask(10).await.unwrap().len(), 6, "what the other left is found at once");
}

#[tokio::test]
async fn mysql_passes_over_what_another_has_open() {
    who_skips_waits_for_no_other_and_finds_what_that_one_left("mysql").await;
}

#[tokio::test]
async fn mariadb_passes_over_what_another_has_open() {
    who_skips_waits_for_no_other_and_finds_what_that_one_left("mariadb").await;
}

#[tokio::test]
async fn a_server_without_skip_locked_refuses_the_strategy_and_says_why() {
    let setup = outbox("mariadb-10.5", Strategy::SkipLocked).await;
    let refused = Relay::new(&setup).await.ask(1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Broken(_)), "{refused}");
    assert_eq!(refused.cause().code, Code::ConfigInvalid, "{refused}");
    let told = refused.to_string();
    assert!(told.contains("MariaDB 10.6; take own or cas"), "{told}");
}

/// Lets many relays find the same row that is no event.
async fn what_is_no_event_is_given_up_once(server: &str, strategy: Strategy) {
    let setup = outbox(server, strategy).await;
    let mut relays = Vec::new();
    for _ in 0..4 {
        relays.push(Relay::new(&setup).await);
        relays[0].ask(1).await.unwrap();
    }
    let (mut session, table) = (Session::open(&setup.url).await.unwrap(), &setup.table);
    session.run(format!("ALTER TABLE {table} DROP CONSTRAINT {table}_headers")).await.unwrap();
    for round in 1..=5 {
        let bad = format!(
            "INSERT INTO {table} (topic, event_type, payload, headers) VALUES ('t', 'T', '', '?')"
        );
        session.run(bad).await.unwrap();
        // One of those who meet may have to yield; whoever asks last finds what is left.
        join_all(relays.iter().map(|relay| relay.ask(1))).await;
        relays[0].ask(1).await.unwrap();
        let dead = relays[0].outbox.catalog().count().await.unwrap().dead;
        assert_eq!(dead, round);
    }
}

#[tokio::test]
async fn mysql_gives_up_once_what_is_no_event() {
    what_is_no_event_is_given_up_once("mysql", Strategy::SkipLocked).await;
}

#[tokio::test]
async fn mariadb_gives_up_once_what_is_no_event() {
    what_is_no_event_is_given_up_once("mariadb-10.5", Strategy::Cas).await;
}
