//! A server that turns read-only under a relay, as the old one does in a failover that is planned:
//! the relay stops and says why, loses nothing, and goes on by itself once it may write again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use it::instance::Instance;
use it::receiver::{Receiver, slow};
use it::session::Session;
use it::site::{Rules, Site, in_order};
use url::Url;

use super::{PATIENCE, opened};

const COUNT: usize = 600;
/// How many connections it tries in vain before it is looked at what it does meanwhile.
const KNOCKS: i64 = 5;
/// It may do nearly everything, and does not outdo what the server as a whole is told.
const ACCOUNT: &str = "CREATE USER 'plain'@'%' IDENTIFIED BY 'plain'; \
                       GRANT ALL ON postbox.* TO 'plain'@'%'";

async fn a_relay_waits_until_its_server_takes_writes_again(server: &str) {
    let (shut, open) = match server {
        "mysql" => ("SET GLOBAL super_read_only = 1", "SET GLOBAL read_only = 0"),
        _ => ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
    };
    let instance = Instance::start(server).unwrap();
    let mut root = opened(&instance.url).await;
    root.run(ACCOUNT).await.unwrap();
    let mut url = Url::parse(&instance.url).unwrap();
    url.set_username("plain").unwrap();
    url.set_password(Some("plain")).unwrap();
    let site = Site::on(url.as_str(), PATIENCE).await.unwrap();
    let events = site.put(COUNT, 40).await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_millis(100))).await.unwrap();
    // So long that a lease which runs out hands nothing out anew.
    let rules = Rules { lease: "60s", outbox: "batch = 20", ..Rules::default() };
    let mut relay = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(COUNT / 6, PATIENCE).await.unwrap();

    root.run(shut).await.unwrap();
    relay.says("its database is down", PATIENCE).await.unwrap();
    let log = relay.log();
    let words = ["the server takes no writes now", "the server is read-only"];
    assert!(log.contains("store-down") && words.iter().any(|said| log.contains(said)), "{log}");
    until_it_knocked(&mut root).await;
    // What the server keeps is what it was told before: whatever else came was never claimed.
    let known = "SELECT event_id FROM outbox_events WHERE status IN ('SENT', 'DISPATCHING')";
    let known: BTreeSet<String> = root.texts(known, 0).await.unwrap().into_iter().collect();
    let came: BTreeSet<String> = receiver.arrivals().into_iter().map(|it| it.id).collect();
    assert!(came.is_subset(&known), "{} came and {} were claimed", came.len(), known.len());
    assert!(came.len() < COUNT, "it was in the midst of its work");

    root.run(open).await.unwrap();
    relay.says("lane runs again: its database is back", PATIENCE).await.unwrap();
    let counts = site.until("all are sent", PATIENCE, |counts| counts.sent == COUNT as u64).await;
    let counts = counts.unwrap();
    assert_eq!((counts.dead, counts.pending()), (0, 0));
    in_order(&events, &receiver.arrivals()).unwrap();
}

/// Waits until the relay has asked again and again, and was refused.
async fn until_it_knocked(root: &mut Session) {
    let first = connections(root).await;
    let until = Instant::now() + PATIENCE;
    while connections(root).await < first + KNOCKS {
        assert!(Instant::now() < until, "it does not ask again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Counts who has ever connected.
async fn connections(root: &mut Session) -> i64 {
    let told = root.texts("SHOW GLOBAL STATUS LIKE 'Connections'", 1).await.unwrap();
    told.concat().parse().unwrap()
}

#[tokio::test]
async fn a_relay_waits_until_mysql_takes_writes_again() {
    a_relay_waits_until_its_server_takes_writes_again("mysql").await;
}

#[tokio::test]
async fn a_relay_waits_until_mariadb_takes_writes_again() {
    a_relay_waits_until_its_server_takes_writes_again("mariadb").await;
}

#[tokio::test]
async fn a_relay_waits_until_mariadb_10_5_takes_writes_again() {
    a_relay_waits_until_its_server_takes_writes_again("mariadb-10.5").await;
}
