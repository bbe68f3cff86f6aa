//! How a relay ends: gently, when told to; with a code and a cause, when it cannot start. A
//! database that breaks while it runs does not end it.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use it::process::{Process, Signal};
use it::receiver::{Receiver, slow, willing};
use it::site::{Rules, Site, in_order};
use sqlx::{Connection, SqliteConnection};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_stopping_relay_finishes_what_is_in_hand_and_hands_the_rest_over() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_millis(100))).await.unwrap();
    let lease = Duration::from_secs(60);
    let outbox = "batch = 20\ndrain = \"60s\"";
    let rules = Rules { lease: "60s", timeout: "25s", outbox, ..Rules::default() };
    let events = site.put(400, 40).await.unwrap();
    let mut first = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(5, PATIENCE).await.unwrap();
    first.signal(Signal::TERM).unwrap();
    assert!(first.ends(PATIENCE).await.unwrap().success(), "{}", first.log());

    let counts = site.counts().await.unwrap();
    let in_hand = receiver.arrivals().len() as u64;
    assert_eq!((counts.sent, counts.new), (in_hand, 400 - in_hand), "{counts:?}");
    assert!(in_hand < 400, "it was stopped in mid-flow");
    let handed_over = Instant::now();
    let _second = site.relay("b", &receiver.url("b"), &rules).unwrap();
    site.until("everything is sent", lease / 2, |counts| counts.sent == 400).await.unwrap();
    assert!(handed_over.elapsed() < lease / 2, "the second waited for a lease to run out");
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 400, "a graceful stop made a duplicate");
    in_order(&events, &arrivals).unwrap();
}

#[tokio::test]
async fn a_stopping_relay_waits_for_a_slow_destination_and_offers_it_nothing_new() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_secs(3))).await.unwrap();
    let rules = Rules { lease: "30s", timeout: "10s", ..Rules::default() };
    site.put(100, 100).await.unwrap();
    let mut relay = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(1, PATIENCE).await.unwrap();
    relay.signal(Signal::TERM).unwrap();
    let told = Instant::now();
    assert!(relay.ends(PATIENCE).await.unwrap().success(), "{}", relay.log());

    assert!(told.elapsed() < Duration::from_secs(9), "it went on: {:?}", told.elapsed());
    let offered = receiver.arrivals().len() as u64;
    assert!(offered <= 8, "a first wave was out, and {offered} arrived");
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.sent, counts.new), (offered, 100 - offered), "{counts:?}");
}

#[tokio::test]
async fn a_relay_whose_only_database_breaks_says_so_and_goes_on_once_it_is_mended() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let mut relay = site.relay("a", &receiver.url("a"), &Rules::default()).unwrap();
    relay.says("lane runs", PATIENCE).await.unwrap();
    site.put(1, 1).await.unwrap();
    site.until("it is sent", PATIENCE, |counts| counts.sent == 1).await.unwrap();
    let url = format!("sqlite:{}", site.file().display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("ALTER TABLE outbox RENAME TO gone").execute(&mut conn).await.unwrap();
    relay.says("outbox is broken", PATIENCE).await.unwrap();
    assert!(relay.log().contains("postbox explain schema-missing"), "{}", relay.log());
    sqlx::query("ALTER TABLE gone RENAME TO outbox").execute(&mut conn).await.unwrap();
    relay.says("its database was mended", PATIENCE).await.unwrap();
    site.put(1, 1).await.unwrap();
    site.until("it is sent", PATIENCE, |counts| counts.sent == 2).await.unwrap();
    assert!(!relay.has_ended().unwrap(), "{}", relay.log());
}

#[tokio::test]
async fn a_relay_whose_console_finds_its_port_taken_says_what_to_set() {
    let site = Site::new().await.unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = other.local_addr().unwrap();
    let text = format!(
        "[outbox.orders]\nurl = \"sqlite:orders.sqlite3\"\n[sink.out]\nkind = \"stdout\"\n\
         [[route]]\ntopic = \"*\"\nsink = \"out\"\n[admin]\nlisten = \"{listen}\"\n"
    );
    let file = site.file();
    let folder = file.parent().unwrap();
    std::fs::write(folder.join("postbox.toml"), text).unwrap();
    let mut relay = Process::start(folder, "relay", &["run", "-c", "postbox.toml"]).unwrap();
    assert_eq!(relay.ends(PATIENCE).await.unwrap().code(), Some(1));
    let log = relay.log();
    for part in [&*listen.to_string(), "[admin]", "POSTBOX__ADMIN__LISTEN=127.0.0.1:0", "`off"] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
}
