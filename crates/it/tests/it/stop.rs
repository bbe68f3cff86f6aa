//! A graceful stop finishes what is in hand, and hands the rest over at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use it::process::Signal;
use it::receiver::{Arrival, Habit, Receiver};
use it::site::{Rules, Site, in_order};
use tokio::sync::watch;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_stopping_relay_finishes_what_is_in_hand_and_hands_the_rest_over() {
    let site = Site::new().await.unwrap();
    let (open, gate) = watch::channel(false);
    let receiver = Receiver::start(gated(gate)).await.unwrap();
    let lease = Duration::from_secs(60);
    let rules = Rules { lease: "60s", timeout: "25s", outbox: "batch = 20", ..Rules::default() };
    let events = site.put(200, 20).await.unwrap();
    let mut first = site.relay("a", &receiver.url("a"), &rules).unwrap();
    receiver.until_distinct(5, PATIENCE).await.unwrap();
    first.signal(Signal::TERM).unwrap();
    first.says("stop", PATIENCE).await.unwrap();
    open.send(true).unwrap();
    assert!(first.ends(PATIENCE).await.unwrap().success(), "{}", first.log());

    let counts = site.counts().await.unwrap();
    let in_hand = receiver.arrivals().len() as u64;
    assert_eq!((counts.sent, counts.new), (in_hand, 200 - in_hand), "{counts:?}");
    assert!(in_hand < 200, "it was stopped in mid-flow");
    let handed_over = Instant::now();
    let _second = site.relay("b", &receiver.url("b"), &rules).unwrap();
    site.until("everything is sent", lease / 2, |counts| counts.sent == 200).await.unwrap();
    assert!(handed_over.elapsed() < lease / 2, "the second waited for a lease to run out");
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 200, "a graceful stop made a duplicate");
    in_order(&events, &arrivals).unwrap();
}

/// A destination that answers once the gate is open.
fn gated(gate: watch::Receiver<bool>) -> Habit {
    Arc::new(move |_: Arrival| {
        let mut gate = gate.clone();
        Box::pin(async move {
            gate.wait_for(|open| *open).await.expect("the test holds the gate");
            StatusCode::NO_CONTENT
        })
    })
}
