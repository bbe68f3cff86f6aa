//! A database that is away is nobody's fault: however long, no hand-out and no attempt is spent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postbox::{Consumed, Event, Failure};

use super::hand::{End, Hand};
use super::place::{effect, place};

fn event() -> Event {
    Event::new("order.paid", "OrderPaid", "{}").key("123")
}

fn counting() -> Arc<Hand> {
    let hand = Hand::default();
    hand.counts.store(true, Ordering::SeqCst);
    Arc::new(hand)
}

/// Makes what the database says when it is away.
fn away() -> Failure {
    Failure::from(sqlx::Error::PoolTimedOut)
}

fn ended(what: &Consumed) -> bool {
    matches!(what, Consumed::First { .. } | Consumed::Dead(_))
}

#[tokio::test]
async fn an_outage_however_long_leaves_the_event_in_hand_and_blames_it_for_nothing() {
    let (place, hand, event) = (place().await, counting(), event());
    hand.give(1, 1, Ok(event.clone()));
    let (heard, tries) = (place.heard.clone(), AtomicU32::new(0));
    tokio::time::pause();
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            let out = tries.fetch_add(1, Ordering::SeqCst) < 45;
            Box::pin(async move {
                if out {
                    return Err(away());
                }
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until_heard(ended),
    );
    run.await.unwrap();
    tokio::time::resume();
    assert_eq!(hand.ended(1), [End::Ack], "it was handed out once");
    assert_eq!(place.effects().await, [event.id.to_string()]);
    assert!(hand.extended.lock().unwrap().len() >= 5, "nobody else was to get it meanwhile");
    assert!(heard.count(|what| matches!(what, Consumed::Again(_))) >= 45, "a witness knows");
}

#[tokio::test]
async fn after_an_outage_the_first_failure_is_the_first() {
    let (place, hand, event) = (place().await, counting(), event());
    hand.give(1, 1, Ok(event.clone()));
    let (heard, tries) = (place.heard.clone(), AtomicU32::new(0));
    tokio::time::pause();
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            let turn = tries.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                match turn {
                    0..5 => return Err(away()),
                    5 => return Err(Failure::later("no stock")),
                    _ => {}
                }
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until_heard(ended),
    );
    run.await.unwrap();
    tokio::time::resume();
    assert!(matches!(hand.ended(1)[..], [End::Again(_), End::Ack]), "{:?}", hand.ends);
    assert_eq!(place.effects().await, [event.id.to_string()]);
}

#[tokio::test]
async fn a_stop_in_an_outage_gives_back_what_waits_for_its_end() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    hand.give(1, 1, Ok(event()));
    let heard = place.heard.clone();
    let run =
        place.consumer(hand.clone()).run(|_, _| Box::pin(async { Err(away()) }), heard.until(1));
    run.await.unwrap();
    assert_eq!(hand.ended(1), [End::Again(Duration::ZERO)]);
    assert!(*hand.closed.lock().unwrap());
}

#[tokio::test]
async fn what_is_waited_for_takes_no_place_from_others() {
    let (place, hand, other) = (place().await, Arc::new(Hand::default()), event().key("other"));
    hand.give(1, 1, Ok(event()));
    hand.give(2, 1, Ok(other.clone()));
    let heard = place.heard.clone();
    let run = place.consumer(hand.clone()).at_once(1).run(
        |tx, event| {
            Box::pin(async move {
                if event.key.as_deref() == Some("123") {
                    return Err(away());
                }
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until_heard(ended),
    );
    run.await.unwrap();
    assert_eq!(place.effects().await, [other.id.to_string()]);
}

#[tokio::test]
async fn what_another_holder_works_on_stays_in_hand_until_that_one_is_done_or_late() {
    let (place, hand, event) = (place().await, counting(), event());
    let held = "INSERT INTO outbox_inbox (group_name, event_id, status, attempts, fence, \
        lease_until, created_at, updated_at) \
        VALUES ('stock', ?, 'PROCESSING', 1, 1, (unixepoch() + 3600) * 1000, 0, 0)";
    sqlx::query(held).bind(event.id.to_string()).execute(&place.pool).await.unwrap();
    hand.give(1, 1, Ok(event.clone()));
    let heard = place.heard.clone();
    let stop = async {
        heard.until(1).await;
        let late = sqlx::query("UPDATE outbox_inbox SET lease_until = 0");
        late.execute(&place.pool).await.unwrap();
        heard.until_heard(ended).await;
    };
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            Box::pin(async move {
                effect!(tx, event);
                Ok(())
            })
        },
        stop,
    );
    run.await.unwrap();
    assert_eq!(hand.ended(1), [End::Ack], "it was handed out once");
    assert_eq!(place.effects().await, [event.id.to_string()]);
}

#[tokio::test]
async fn copies_of_what_is_in_hand_are_not_taken_for_deaths() {
    let (place, hand, event) = (place().await, Arc::new(Hand::default()), event());
    for attempt in 1..=30 {
        hand.give(attempt.into(), attempt, Ok(event.clone()));
    }
    let (heard, asked) = (place.heard.clone(), hand.clone());
    let run = place.consumer(hand.clone()).lease(Duration::from_millis(30)).run(
        |tx, event| {
            let hand = asked.clone();
            Box::pin(async move {
                // As long as it takes until the last copy is in hand too.
                while !hand.extended.lock().unwrap().contains(&30) && hand.ended(30).is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until(30),
    );
    run.await.unwrap();
    assert!((1..=30).all(|handle| hand.ended(handle) == [End::Ack]), "{:?}", hand.ends);
    assert_eq!(place.effects().await, [event.id.to_string()]);
}
