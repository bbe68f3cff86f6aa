//! Two relay processes on one file: without a fault, each event is published exactly once.

use std::time::Duration;

use it::process::Signal;
use it::receiver::{Receiver, willing};
use it::site::{Rules, Site, in_order};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn two_relays_on_one_file_publish_each_event_exactly_once() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let rules = Rules { lease: "10s", timeout: "4s", ..Rules::default() };
    let mut events = site.put(500, 20).await.unwrap();
    let mut a = site.relay("a", &receiver.url("a"), &rules).unwrap();
    let mut b = site.relay("b", &receiver.url("b"), &rules).unwrap();
    for _ in 0..3 {
        events.extend(site.put(500, 20).await.unwrap());
    }
    site.until("everything is sent", PATIENCE, |counts| counts.sent == 2000).await.unwrap();
    for relay in [&mut a, &mut b] {
        relay.signal(Signal::TERM).unwrap();
        assert!(relay.ends(PATIENCE).await.unwrap().success(), "{}", relay.log());
    }
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 2000, "an event was published twice without a fault");
    in_order(&events, &arrivals).unwrap();
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.sent, counts.dead, counts.pending()), (2000, 0, 0));
}
