//! Waiting: a hint that something may be due, never a promise, and never for ever.

use std::time::Duration;

use crate::ground::Ground;
use crate::suite::act::{done, relay, unkeyed};

const LONG: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(20);

/// A ring wakes a lane that waits, long before its time.
pub async fn wait_returns_on_a_ring(ground: &dyn Ground) {
    let one = relay(ground).await;
    assert_eq!(one.claim(1).await, []);
    let ringing = async {
        loop {
            one.outbox.ring();
            tokio::task::yield_now().await;
        }
    };
    let woken = async {
        tokio::select! {
            () = one.lane.wait(LONG) => {}
            () = ringing => {}
        }
    };
    tokio::time::timeout(PATIENCE, woken).await.expect("a ring wakes the lane");
}

/// A producer in the same process needs no poll.
pub async fn wait_returns_when_an_event_is_put(ground: &dyn Ground) {
    let one = relay(ground).await;
    let putting = async {
        loop {
            one.put(&[unkeyed()]).await;
            tokio::task::yield_now().await;
        }
    };
    let woken = async {
        tokio::select! {
            () = one.lane.wait(LONG) => {}
            () = putting => {}
        }
    };
    tokio::time::timeout(PATIENCE, woken).await.expect("a put wakes the lane");
    let claims = one.claim(1).await;
    one.end(&claims, &done()).await;
}

/// A lane that nobody wakes looks again by itself.
pub async fn wait_returns_after_its_time(ground: &dyn Ground) {
    let one = relay(ground).await;
    let waiting = one.lane.wait(Duration::from_millis(20));
    tokio::time::timeout(PATIENCE, waiting).await.expect("a wait ends");
}
