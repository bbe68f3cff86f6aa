//! A destination or a database that is down costs time and nothing else, and is seen.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use it::ports::Ports;
use it::process::Process;
use it::raw;
use it::receiver::{Receiver, willing};
use it::site::{Rules, Site, in_order};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_outage_spends_no_attempt_and_ends_by_itself() {
    let site = Site::new().await.unwrap();
    let events = site.put(50, 5).await.unwrap();
    let (nobody, _port) = nobody();
    // One turn, so that nobody claims while it rests, and so long a lease that what is not in hand
    // was put back and did not run out.
    let policy = "attempts = 1";
    let rules = Rules { lease: "60s", outbox: "turns = 1", policy, ..Rules::default() };
    let mut relay = site.relay("a", &format!("http://{nobody}/a"), &rules).unwrap();
    relay.says("its destination is down", PATIENCE).await.unwrap();
    site.until("everything is put back", PATIENCE, |counts| counts.new == 50).await.unwrap();
    let spent: u32 = site.rows().await.unwrap().iter().map(|row| row.attempts).sum();
    assert_eq!(spent, 0, "an outage spent attempts");

    let receiver = Receiver::start_at(nobody, willing()).await.unwrap();
    let counts = site.until("everything is sent", PATIENCE, |counts| counts.sent == 50).await;
    assert_eq!(counts.unwrap().dead, 0);
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 50);
    in_order(&events, &arrivals).unwrap();
}

/// A plain connection that ends may have brought an event; one on which TLS fails has not.
#[tokio::test]
async fn a_destination_that_is_down_is_knocked_at_now_and_then_and_offered_nothing() {
    const KNOCKS: usize = 20;
    const TOO_SOON: Duration = Duration::from_secs(1);
    let site = Site::new().await.unwrap();
    site.put(50, 5).await.unwrap();
    let place = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = place.local_addr().unwrap();
    let knocks = watch::Sender::new(0);
    let count = knocks.clone();
    let mut hanging_up = JoinSet::new();
    hanging_up.spawn(async move {
        while place.accept().await.is_ok() {
            count.send_modify(|count| *count += 1);
        }
    });
    let (outbox, admin) = ("batch = 20\nturns = 1", "listen = \"127.0.0.1:0\"");
    let rules = Rules { lease: "60s", outbox, policy: "attempts = 1", admin, ..Rules::default() };
    let mut relay = site.relay("a", &format!("https://{address}/a"), &rules).unwrap();
    let console = relay.console(PATIENCE).await.unwrap();
    relay.says("its destination is down", PATIENCE).await.unwrap();
    let (began, before) = (Instant::now(), *knocks.borrow());
    let mut news = knocks.subscribe();
    let enough = news.wait_for(|count| *count >= before + KNOCKS);
    timeout(PATIENCE, enough).await.expect("it asks again and again").unwrap();
    let took = began.elapsed();
    assert!(took > TOO_SOON, "{KNOCKS} times within {took:?}\n{}", relay.log());
    until_shown(console, r#"postbox_claimed_total{outbox="orders",sink="stock"} 20"#).await;
    site.until("everything is put back", PATIENCE, |counts| counts.new == 50).await.unwrap();
    let rows = site.rows().await.unwrap();
    assert!(rows.iter().all(|row| row.attempts == 0), "an outage spent attempts: {rows:?}");
}

#[tokio::test]
async fn a_relay_is_ready_while_its_database_answers_whatever_its_destination_does() {
    let site = Site::new().await.unwrap();
    site.put(1, 1).await.unwrap();
    let file = site.file();
    site.outbox.close().await;
    let folder = file.parent().unwrap();
    // The database is elsewhere, and what stands in its place cannot be opened.
    let away = folder.join("away.sqlite3");
    std::fs::rename(&file, &away).unwrap();
    let place = UnixListener::bind(&file).unwrap();

    let (nobody, _port) = nobody();
    let (mut relay, console) = start(folder, &format!("http://{nobody}/a")).await;
    relay.says("its database is down", PATIENCE).await.unwrap();
    until_shown(console, r#"postbox_outbox_up{outbox="orders"} 0"#).await;
    until_shown(console, r#"postbox_events{outbox="orders",status="NEW"} NaN"#).await;
    assert_eq!(raw::get(console, "/readyz", "").unwrap().status, 503);
    assert_eq!(raw::get(console, "/livez", "").unwrap().status, 200);

    std::fs::rename(&away, &file).unwrap();
    drop(place);
    relay.says("lane runs again: its database is back", PATIENCE).await.unwrap();
    relay.says("its destination is down", PATIENCE).await.unwrap();
    until_shown(console, r#"postbox_outbox_up{outbox="orders"} 1"#).await;
    until_shown(console, r#"postbox_lane_up{outbox="orders",sink="stock"} 0"#).await;
    assert_eq!(raw::get(console, "/readyz", "").unwrap().status, 200);
    let pulse = raw::get(console, "/api/v1/pulse", "").unwrap().body;
    assert!(pulse.contains("resting") && pulse.contains("sink-down"), "{pulse}");
}

/// Starts a relay with a console on a free port.
async fn start(folder: &Path, destination: &str) -> (Process, SocketAddr) {
    let text = format!(
        "[outbox.orders]\nurl = \"sqlite:orders.sqlite3\"\n[sink.stock]\nkind = \"http\"\n\
         url = \"{destination}\"\nallow_private = true\n\
         [[route]]\ntopic = \"*\"\nsink = \"stock\"\n\
         [policy]\nrest = \"200ms\"\n[admin]\nlisten = \"127.0.0.1:0\"\nsample = \"200ms\"\n"
    );
    std::fs::write(folder.join("postbox.toml"), text).unwrap();
    let mut relay = Process::start(folder, "relay", &["run", "-c", "postbox.toml"]).unwrap();
    let console = relay.console(PATIENCE).await.unwrap();
    (relay, console)
}

/// Waits until the metrics page has a line.
async fn until_shown(console: SocketAddr, line: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let page = raw::get(console, "/metrics", "").unwrap().body;
        if page.lines().any(|shown| shown == line) {
            return;
        }
        assert!(Instant::now() < until, "{line}\nis not in\n{page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Finds an address where nobody listens, and nobody will for as long as the port is held.
fn nobody() -> (SocketAddr, Ports<1>) {
    let port = Ports::reserve().expect("a port is free");
    ((Ipv4Addr::LOCALHOST, port.numbers[0]).into(), port)
}
