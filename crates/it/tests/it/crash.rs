//! Relays that die or fall asleep in mid-flow: another goes on, and nobody changes what is not
//! theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use event::{Code, Event, Status};
use it::process::{self, Signal};
use it::receiver::{Arrival, Habit, Receiver, first, slow};
use it::site::{Rules, Site, in_order};

const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn after_a_kill_the_other_relay_goes_on_within_its_lease_and_two_seconds() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_millis(10))).await.unwrap();
    let events = site.put(1000, 20).await.unwrap();
    let mut owner = site.relay("a", &receiver.url("a"), &Rules::default()).unwrap();
    receiver.until_distinct(1, PATIENCE).await.unwrap();
    let mut standby = site.relay("b", &receiver.url("b"), &Rules::default()).unwrap();
    standby.says("lane stands by", PATIENCE).await.unwrap();
    receiver.until_distinct(100, PATIENCE).await.unwrap();

    owner.signal(Signal::KILL).unwrap();
    owner.ends(PATIENCE).await.unwrap();
    let killed = Instant::now();
    assert!(site.counts().await.unwrap().pending() > 0, "it was killed in mid-flow");
    let by_b = |arrivals: &[Arrival]| arrivals.iter().find(|it| it.by == "b").map(|it| it.at);
    let again = receiver.until("anything from b", LEASE * 4, by_b).await.unwrap();
    let silent = again.saturating_duration_since(killed);
    assert!(silent <= LEASE + Duration::from_secs(2), "nobody published for {silent:?}");
    standby.says("it has taken over from another relay", PATIENCE).await.unwrap();

    site.until("everything is sent", PATIENCE, |counts| counts.sent == 1000).await.unwrap();
    in_order(&events, &receiver.arrivals()).unwrap();
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.dead, counts.pending()), (0, 0));
}

#[tokio::test]
async fn a_relay_that_wakes_after_its_lease_changes_nothing() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(slow(Duration::from_millis(10))).await.unwrap();
    let mut events = site.put(400, 20).await.unwrap();
    let mut sleeper = site.relay("a", &receiver.url("a"), &Rules::default()).unwrap();
    receiver.until_distinct(100, PATIENCE).await.unwrap();
    sleeper.signal(Signal::STOP).unwrap();
    let asleep = site.counts().await.unwrap();
    assert!(asleep.dispatching > 0, "it fell asleep with something in hand: {asleep:?}");

    let mut other = site.relay("b", &receiver.url("b"), &Rules::default()).unwrap();
    let all = site.until("everything is sent", PATIENCE, |counts| counts.sent >= 400).await;
    assert_eq!(all.unwrap().sent, 400);
    let before = site.rows().await.unwrap();
    sleeper.signal(Signal::CONT).unwrap();
    sleeper.signal(Signal::TERM).unwrap();
    assert!(sleeper.ends(PATIENCE).await.unwrap().success(), "{}", sleeper.log());
    assert_eq!(site.rows().await.unwrap(), before, "the late relay changed a row");
    assert_eq!(site.counts().await.unwrap().sent, 400);

    events.extend(site.put(100, 20).await.unwrap());
    site.until("the rest is sent", PATIENCE, |counts| counts.sent >= 500).await.unwrap();
    other.signal(Signal::TERM).unwrap();
    assert!(other.ends(PATIENCE).await.unwrap().success(), "{}", other.log());
    in_order(&events, &receiver.arrivals()).unwrap();
    assert_eq!(site.counts().await.unwrap().sent, 500);
}

#[tokio::test]
async fn an_event_that_kills_the_relay_ends_dead_while_everything_else_flows() {
    let site = Site::new().await.unwrap();
    let victim = Arc::new(AtomicU32::new(0));
    let receiver = Receiver::start(killing(victim.clone())).await.unwrap();
    let rules = Rules {
        lease: "1s",
        timeout: "400ms",
        outbox: "batch = 20",
        policy: "attempts = 4\nbackoff = \"100ms\"",
        ..Rules::default()
    };
    let before = site.put(10, 5).await.unwrap();
    let poison = Event::new("order.paid", "OrderPaid", "poison").key("poison");
    site.outbox.put(std::slice::from_ref(&poison), None).await.unwrap();
    let after = site.put(30, 5).await.unwrap();

    let ended = Instant::now() + PATIENCE;
    while site.counts().await.unwrap().pending() > 0 {
        assert!(Instant::now() < ended, "{:?}", site.counts().await);
        let mut relay = site.relay("a", &receiver.url("a"), &rules).unwrap();
        victim.store(relay.id(), Ordering::SeqCst);
        tokio::select! {
            died = relay.ends(PATIENCE) => assert!(!died.unwrap().success()),
            all = site.until("nothing is pending", PATIENCE, |counts| counts.pending() == 0) => {
                all.unwrap();
            }
        }
    }

    let rows = site.rows().await.unwrap();
    let (dead, sent): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.status == Status::Dead);
    assert_eq!((dead.len(), sent.len()), (1, 40));
    assert_eq!(dead[0].event.id, poison.id);
    assert_eq!(dead[0].last_error().map(|cause| cause.code), Some(Code::CrashLoop));
    let arrivals = receiver.arrivals();
    let offered = arrivals.iter().filter(|it| it.body == "poison").count();
    assert_eq!(offered, 4, "the poison was offered as often as the policy says");
    let innocent: Vec<_> = arrivals.into_iter().filter(|it| it.body != "poison").collect();
    assert_eq!(first(&innocent).len(), 40);
    in_order(&[before, after].concat(), &innocent).unwrap();
}

/// A destination whose answer to one event is the death of whoever brought it.
fn killing(victim: Arc<AtomicU32>) -> Habit {
    Arc::new(move |arrival: Arrival| {
        let victim = victim.clone();
        Box::pin(async move {
            if arrival.body == "poison" {
                process::crash(victim.load(Ordering::SeqCst)).expect("the relay can be killed");
                std::future::pending::<()>().await;
            }
            StatusCode::NO_CONTENT
        })
    })
}
