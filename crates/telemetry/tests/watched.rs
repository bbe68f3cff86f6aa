//! What passes a watched seam is counted, shown and changed in nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{
    Address, Answer, Aside, Cause, Claim, Code, Event, Fence, LaneState, Millis, Outcome, Pulse,
    Receipt, Refusal, Settled, Settlement, Shelf, Sink, Source, StoreError, Want,
};
use postbox_telemetry::Telemetry;
use tokio::sync::Notify;

/// Only the first of a process has the metrics page.
static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(Telemetry::install);

fn state(outbox: &str) -> LaneState {
    let lanes = TELEMETRY.lanes();
    lanes.into_iter().find(|lane| lane.outbox == outbox).unwrap().state
}

#[tokio::test]
async fn the_metrics_page_and_the_pulse_tell_what_passed() {
    let (source, sink) = TELEMETRY.watch("orders", "stock", Arc::new(Rows), Arc::new(Shop));
    let want = Want { limit: 3, bytes: 1, lease: Duration::from_secs(1) };
    let claims = source.claim(&want).await.unwrap();
    let events: Vec<Event> = claims.iter().map(|claim| claim.event.clone()).collect();
    let answers = sink.publish(&events).await;
    assert_eq!(answers, Shop.publish(&events).await, "a watched sink answers as the sink does");
    assert_eq!(state("orders"), LaneState::Resting);

    let dead = Outcome::Dead(Cause::new(Code::SinkRefused, "no"));
    let ends = [claims[0].end(Outcome::Done(Receipt { broker_id: None })), claims[1].end(dead)];
    source.settle(&ends).await.unwrap();
    let put_back = claims[2].end(Outcome::Release { after: Duration::ZERO });
    source.settle(&[put_back]).await.unwrap();

    let beat = *TELEMETRY.beats(1).last().unwrap();
    assert_eq!((beat.sent, beat.dead), (1, 1));
    let page = TELEMETRY.metrics();
    for line in [
        r#"postbox_claimed_total{outbox="orders",sink="stock"} 3"#,
        r#"postbox_outrun_total{outbox="orders",sink="stock"} 2"#,
        r#"postbox_published_total{outbox="orders",sink="stock"} 1"#,
        r#"postbox_refused_total{outbox="orders",sink="stock",reaction="down",code="sink-down"} 1"#,
        r#"postbox_dead_total{outbox="orders",sink="stock",code="sink-refused"} 1"#,
        r#"postbox_attempts_count{outbox="orders",sink="stock"} 2"#,
        r#"postbox_attempts_sum{outbox="orders",sink="stock"} 4"#,
        r#"postbox_attempts_bucket{outbox="orders",sink="stock",le="2"} 2"#,
        r#"postbox_dispatch_latency_seconds_count{outbox="orders",sink="stock"} 1"#,
        r#"postbox_due_seconds_count{outbox="orders",sink="stock"} 1"#,
        r#"postbox_due_seconds_bucket{outbox="orders",sink="stock",le="86400"} 1"#,
        r#"postbox_lane_up{outbox="orders",sink="stock"} 0"#,
    ] {
        assert!(page.contains(line), "{line}\nis not in\n{page}");
    }
}

#[tokio::test]
async fn a_lane_that_waited_for_its_database_runs_once_that_answers_events_or_none() {
    let source = Arc::new(Flaky(AtomicBool::new(false)));
    let (watched, _) = TELEMETRY.watch("bills", "stock", source.clone(), Arc::new(Shop));
    let want = Want { limit: 1, bytes: 1, lease: Duration::from_secs(1) };
    assert!(watched.claim(&want).await.is_err());
    assert_eq!(state("bills"), LaneState::Waiting);
    source.0.store(true, Ordering::SeqCst);
    assert_eq!(watched.claim(&want).await, Ok(Vec::new()));
    assert_eq!(state("bills"), LaneState::Running);
}

#[tokio::test]
async fn a_destination_that_only_answers_probes_is_back_once_no_event_is_turned_away() {
    let empty = Arc::new(Flaky(AtomicBool::new(true)));
    let (source, sink) = TELEMETRY.watch("parcels", "stock", empty, Arc::new(Shop));
    let want = Want { limit: 1, bytes: 1, lease: Duration::from_secs(1) };
    let events = ["a", "b"].map(|topic| Event::new(topic, "T", "{}"));
    let turned_away = async || {
        for _ in 0..3 {
            sink.publish(&events).await;
            assert_eq!(state("parcels"), LaneState::Resting);
            sink.probe().await.unwrap();
            assert_eq!(state("parcels"), LaneState::Resting, "a probe is no event");
        }
    };
    turned_away().await;
    assert_eq!(source.claim(&want).await, Ok(Vec::new()));
    assert_eq!(state("parcels"), LaneState::Running, "no event is left to tell");
    turned_away().await;
    sink.publish(&events[..1]).await;
    assert_eq!(state("parcels"), LaneState::Running);
    sink.publish(&events).await;
    assert_eq!(source.claim(&want).await, Ok(Vec::new()));
    assert_eq!(state("parcels"), LaneState::Resting, "nothing was heard of it since");
}

#[tokio::test]
async fn a_destination_is_not_back_while_an_event_is_put_back_or_out_that_could_tell() {
    let (source, sink) = TELEMETRY.watch("letters", "stock", Arc::new(Few::of(2)), Arc::new(Shop));
    let want = Want { limit: 1, bytes: 1, lease: Duration::from_secs(60) };
    let first = source.claim(&want).await.unwrap().remove(0);
    let second = source.claim(&want).await.unwrap().remove(0);
    let down = [Event::new("a", "T", "{}"), first.event.clone()];
    sink.publish(&down).await;
    let after = Duration::from_millis(30);
    source.settle(&[first.end(Outcome::Release { after })]).await.unwrap();
    let put_back = Instant::now();
    sink.probe().await.unwrap();
    while put_back.elapsed() < 7 * after {
        assert_eq!(source.claim(&want).await, Ok(Vec::new()));
        assert_eq!(state("letters"), LaneState::Resting, "the second is out");
        tokio::task::yield_now().await;
    }
    source.settle(&[second.end(Outcome::Release { after })]).await.unwrap();
    let put_back = Instant::now();
    while state("letters") == LaneState::Resting {
        assert_eq!(source.claim(&want).await, Ok(Vec::new()));
        tokio::task::yield_now().await;
    }
    assert_eq!(state("letters"), LaneState::Running);
    assert!(put_back.elapsed() > after, "it was put back for so long");
}

#[tokio::test]
async fn a_claim_that_got_nothing_beside_another_says_nothing_of_the_destination() {
    let few = Arc::new(Few { held: Some(Notify::new()), ..Few::of(1) });
    let (source, sink) = TELEMETRY.watch("cards", "stock", few.clone(), Arc::new(Shop));
    let want = Want { limit: 1, bytes: 1, lease: Duration::from_secs(60) };
    sink.publish(&["a", "b"].map(|topic| Event::new(topic, "T", "{}"))).await;
    sink.probe().await.unwrap();
    let beside = async {
        assert_eq!(source.claim(&want).await, Ok(Vec::new()));
        assert_eq!(state("cards"), LaneState::Resting, "the other may get what is left");
        few.held.as_ref().unwrap().notify_one();
    };
    let (claims, ()) = tokio::join!(source.claim(&want), beside);
    assert_eq!(claims.unwrap().len(), 1);
    assert_eq!(source.claim(&want).await, Ok(Vec::new()));
    assert_eq!(state("cards"), LaneState::Resting, "it is out");
}

/// A database that has so many events, and nothing after that. The answer that has the first of
/// them may be held.
struct Few {
    left: AtomicUsize,
    held: Option<Notify>,
}

impl Few {
    fn of(left: usize) -> Few {
        Few { left: AtomicUsize::new(left), held: None }
    }
}

#[async_trait]
impl Source for Few {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let less = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            return Ok(Vec::new());
        }
        if let Some(held) = &self.held {
            held.notified().await;
        }
        Rows.claim(want).await
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        Rows.settle(ends).await
    }

    async fn wait(&self, _: Duration) {}

    async fn release(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A database that is down, and has nothing when it is up.
struct Flaky(AtomicBool);

#[async_trait]
impl Source for Flaky {
    async fn claim(&self, _: &Want) -> Result<Vec<Claim>, StoreError> {
        let up = self.0.load(Ordering::SeqCst);
        if up { Ok(Vec::new()) } else { Err(StoreError::Down(Cause::new(Code::StoreDown, "gone"))) }
    }

    async fn settle(&self, _: &[Settlement]) -> Result<Settled, StoreError> {
        unreachable!("nothing was claimed")
    }

    async fn wait(&self, _: Duration) {}

    async fn release(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Rows;

#[async_trait]
impl Source for Rows {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let claim = |number| Claim {
            event: Event::new("order.paid", "OrderPaid", "{}"),
            address: Address { shelf: Shelf::Hot, shard: 0, number },
            fence: Fence(1),
            due: Millis::now(),
            attempt: 2,
            unexplained: 0,
        };
        Ok((0..want.limit as i64).map(claim).collect())
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        Ok(Settled { settled: ends.len(), stale: Vec::new() })
    }

    async fn wait(&self, _: Duration) {}

    async fn release(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn aside(&self) -> Aside {
        Aside { stands_by: false, outrun: 2 }
    }
}

struct Shop;

#[async_trait]
impl Sink for Shop {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let down = Err(Refusal::Down(Cause::new(Code::SinkDown, "closed")));
        let receipt = Ok(Receipt { broker_id: None });
        [receipt, down, Err(Refusal::Held)].into_iter().take(events.len()).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        Ok(())
    }
}
