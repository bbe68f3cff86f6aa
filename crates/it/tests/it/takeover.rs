//! A relay that is killed on a server: its rows flow again through the other within its lease and
//! two seconds, whether relays share the shards or compete for every row.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use it::instance::Instance;
use it::process::Signal;
use it::receiver::{Arrival, Receiver, slow, willing};
use it::session::Session;
use it::site::{Rules, Site, in_order};

const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(2);
const COUNT: usize = 3000;

/// Who owns shards.
const OWNERS: &str = "SELECT DISTINCT owner FROM outbox_lease WHERE shard >= 0 AND owner <> ''";

/// Makes a test of each kind of server.
macro_rules! takeovers {
    ($(fn $test:ident = $server:literal,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                a_killed_relays_rows_flow_again($server).await;
            }
        )+
    };
}

takeovers! {
    fn a_killed_relays_rows_flow_within_its_lease_and_two_seconds_on_postgres = "postgres",
    fn a_killed_relays_rows_flow_within_its_lease_and_two_seconds_on_mysql = "mysql",
    fn a_killed_relays_rows_flow_within_its_lease_and_two_seconds_on_mariadb = "mariadb",
    fn a_killed_relays_rows_flow_within_its_lease_and_two_seconds_on_mariadb_10_5 = "mariadb-10.5",
}

async fn a_killed_relays_rows_flow_again(server: &str) {
    let instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let mut session = Session::open(&instance.url).await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_millis(50))).await.unwrap();
    let events = site.put(COUNT, 40).await.unwrap();
    let rules = Rules { outbox: "batch = 20", ..Rules::default() };
    let mut owner = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(1, PATIENCE).await.unwrap();
    let owners = session.texts(OWNERS, 0).await.unwrap();
    assert_eq!(owners.len(), 1, "one relay has all shards");
    let _other = site.relay("b", &receiver.url("b"), &rules).unwrap();
    let by_b = |all: &[Arrival]| all.iter().any(|it| it.by == "b").then_some(());
    receiver.until("a share of b's", PATIENCE, by_b).await.unwrap();

    owner.signal(Signal::KILL).unwrap();
    owner.ends(PATIENCE).await.unwrap();
    let killed = Instant::now();
    let left = format!(
        "SELECT DISTINCT hot.biz_key FROM outbox AS hot JOIN outbox_lease AS lease \
         ON lease.shard = hot.shard WHERE lease.owner = '{}'",
        owners[0]
    );
    let keys = session.texts(left, 0).await.unwrap();
    assert!(!keys.is_empty(), "it was killed in mid-flow, with shards of its own");
    let left = |it: &&Arrival| {
        it.by == "b" && it.at > killed && it.key.as_ref().is_some_and(|key| keys.contains(key))
    };
    let first = |all: &[Arrival]| all.iter().find(left).map(|it| it.at);
    let again = receiver.until("a row of a's through b", LEASE * 4, first).await.unwrap();
    let silent = again.saturating_duration_since(killed);
    assert!(silent <= LEASE + Duration::from_secs(2), "nobody published them for {silent:?}");

    site.until("everything is sent", PATIENCE, |counts| counts.sent == COUNT as u64).await.unwrap();
    in_order(&events, &receiver.arrivals()).unwrap();
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.dead, counts.pending()), (0, 0));
}

/// How many events one relay has in hand at once.
const HAND: usize = 20;

/// Makes a test of each kind of server and strategy.
macro_rules! competing {
    ($(fn $test:ident = $server:literal $strategy:literal,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                let outbox = concat!(
                    "batch = 20\norder = \"pass\"\nstrategy = \"", $strategy, "\""
                );
                what_a_killed_relay_had_in_hand_flows_again($server, outbox).await;
            }
        )+
    };
}

mod what_a_killed_relay_had_in_hand_flows_within_its_lease_and_two_seconds {
    use super::*;

    competing! {
        fn on_postgres_with_skip_locked = "postgres" "skip_locked",
        fn on_postgres_with_cas = "postgres" "cas",
        fn on_mysql_with_skip_locked = "mysql" "skip_locked",
        fn on_mariadb_with_cas = "mariadb" "cas",
        fn on_mariadb_10_5_with_preempt = "mariadb-10.5" "preempt",
    }
}

async fn what_a_killed_relay_had_in_hand_flows_again(server: &str, outbox: &'static str) {
    let instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let mut session = Session::open(&instance.url).await.unwrap();
    // Whatever goes to the first relay's destination stays there.
    let (swift, stuck) = (willing(), slow(PATIENCE));
    let habit = move |it: Arrival| if it.by == "a" { stuck(it) } else { swift(it) };
    let receiver = Receiver::start(Arc::new(habit)).await.unwrap();
    site.put(HAND, HAND).await.unwrap();
    let rules = Rules { outbox, ..Rules::default() };
    let mut owner = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(1, PATIENCE).await.unwrap();
    let hand = "SELECT event_id FROM outbox_events WHERE status = 'DISPATCHING'";
    let hand: BTreeSet<String> = session.texts(hand, 0).await.unwrap().into_iter().collect();
    let mut other = site.relay("b", &receiver.url("b"), &rules).unwrap();
    other.says("goes to", PATIENCE).await.unwrap();
    owner.signal(Signal::KILL).unwrap();
    owner.ends(PATIENCE).await.unwrap();
    let killed = Instant::now();
    assert!(!hand.is_empty(), "it was killed with something in hand");
    let by_b = |it: &&Arrival| it.by == "b" && hand.contains(&it.id);
    let all = |all: &[Arrival]| {
        let came: Vec<&Arrival> = all.iter().filter(by_b).collect();
        let ids: BTreeSet<&String> = came.iter().map(|it| &it.id).collect();
        (ids.len() == hand.len()).then(|| came.iter().map(|it| it.at).max())?
    };
    let last = receiver.until("all that it had through b", LEASE * 4, all).await.unwrap();
    let silent = last.saturating_duration_since(killed);
    assert!(silent <= LEASE + Duration::from_secs(2), "they were not published for {silent:?}");
    let counts = site.until("all is sent", PATIENCE, |counts| counts.sent == HAND as u64).await;
    assert_eq!(counts.unwrap().dead, 0);
}
