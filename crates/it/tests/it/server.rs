//! A database server that dies costs time and nothing else.

use std::time::Duration;

use it::instance::Instance;
use it::receiver::{Receiver, willing};
use it::site::{Rules, Site, in_order};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_killed_postgres_loses_nothing_and_its_events_flow_again() {
    a_killed_server_loses_nothing("postgres").await;
}

#[tokio::test]
async fn a_killed_mysql_loses_nothing_and_its_events_flow_again() {
    a_killed_server_loses_nothing("mysql").await;
}

#[tokio::test]
async fn a_killed_mariadb_loses_nothing_and_its_events_flow_again() {
    a_killed_server_loses_nothing("mariadb").await;
}

#[tokio::test]
async fn a_killed_mariadb_10_5_loses_nothing_and_its_events_flow_again() {
    a_killed_server_loses_nothing("mariadb-10.5").await;
}

/// Kills a server under a relay that publishes, starts it again, and counts.
async fn a_killed_server_loses_nothing(server: &str) {
    let mut instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let mut events = site.put(300, 7).await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let rules = Rules { outbox: "batch = 10", ..Rules::default() };
    let mut relay = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(50, PATIENCE).await.unwrap();
    instance.kill().unwrap();
    relay.says("its database is down", PATIENCE).await.unwrap();
    instance.revive().unwrap();
    relay.says("lane runs again: its database is back", PATIENCE).await.unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    events.extend(site.put(100, 7).await.unwrap());
    let counts = site.until("all are sent", PATIENCE, |counts| counts.sent == 400).await.unwrap();
    assert_eq!((counts.new, counts.retry, counts.dead), (0, 0, 0));
    in_order(&events, &receiver.arrivals()).unwrap();
}
