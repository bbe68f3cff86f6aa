//! A graceful stop finishes what is in hand, and hands the rest over at once.

use std::time::{Duration, Instant};

use it::process::Signal;
use it::receiver::{Receiver, slow};
use it::site::{Rules, Site, in_order};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_stopping_relay_finishes_what_is_in_hand_and_hands_the_rest_over() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_millis(100))).await.unwrap();
    let lease = Duration::from_secs(60);
    let rules = Rules { lease: "60s", timeout: "25s", outbox: "batch = 20", ..Rules::default() };
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
