//! A destination that is down costs time and nothing else.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use it::receiver::{Receiver, willing};
use it::site::{Rules, Site, in_order};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_outage_spends_no_attempt_and_ends_by_itself() {
    let site = Site::new().await.unwrap();
    let events = site.put(50, 5).await.unwrap();
    let nobody = free_address();
    let rules = Rules { policy: "attempts = 1", ..Rules::default() };
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

/// Finds an address where nobody listens.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    listener.local_addr().expect("a bound socket has an address")
}
