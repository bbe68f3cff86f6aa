//! How each delivery ends, and that its effect is there exactly when it should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postbox::{Cause, Code, Consumed, Error, Event, Failure};

use super::hand::{End, Hand};
use super::place::{effect, place};

fn event() -> Event {
    Event::new("order.paid", "OrderPaid", "{}").key("123")
}

fn first(what: &Consumed) -> bool {
    matches!(what, Consumed::First { .. })
}

#[tokio::test]
async fn an_event_that_comes_three_times_has_one_effect_and_every_copy_is_acked() {
    let (place, hand, event) = (place().await, Arc::new(Hand::default()), event());
    for handle in 1..=3 {
        hand.give(handle, 1, Ok(event.clone()));
    }
    let heard = place.heard.clone();
    let consumer = place.consumer(hand.clone());
    let run = consumer.run(
        |tx, event| {
            Box::pin(async move {
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until(3),
    );
    run.await.unwrap();
    assert_eq!(place.effects().await, [event.id.to_string()]);
    assert!((1..=3).all(|handle| hand.ended(handle) == [End::Ack]), "{:?}", hand.ends);
    let before = heard.count(|what| *what == Consumed::Before);
    assert_eq!((heard.count(first), before), (1, 2));
    assert!(*hand.closed.lock().unwrap(), "it left the group");
}

#[tokio::test]
async fn the_broker_is_told_only_after_the_commit() {
    let (place, hand, event) = (place().await, Arc::new(Hand::default()), event());
    hand.give(1, 1, Ok(event));
    let (seen, heard) = (hand.clone(), place.heard.clone());
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            let ended = seen.ended(1);
            Box::pin(async move {
                assert_eq!(ended, [], "it was told before the work");
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until(1),
    );
    run.await.unwrap();
    assert_eq!((hand.ended(1), place.effects().await.len()), (vec![End::Ack], 1));
}

#[tokio::test]
async fn a_failure_leaves_nothing_and_comes_again_until_its_attempts_are_spent() {
    let (place, hand, event) = (place().await, Arc::new(Hand::default()), event());
    for handle in 1..=3 {
        hand.give(handle, 1, Ok(event.clone()));
    }
    let heard = place.heard.clone();
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            Box::pin(async move {
                effect!(tx, event);
                Err(Failure::later("no stock"))
            })
        },
        heard.until(3),
    );
    run.await.unwrap();
    assert_eq!(place.effects().await, [""; 0], "what failed was rolled back");
    for handle in 1..=2 {
        assert!(matches!(hand.ended(handle)[..], [End::Again(_)]), "{:?}", hand.ends);
    }
    let [End::Dead(cause)] = &hand.ended(3)[..] else { panic!("{:?}", hand.ends) };
    assert_eq!(cause.code, Code::AttemptsSpent);
    assert!(cause.detail.contains("no stock"), "{cause}");
    assert_eq!(heard.count(|what| matches!(what, Consumed::Dead(_))), 1);
}

#[tokio::test]
async fn after_a_failure_the_same_event_is_new_again() {
    let (place, hand, event) = (place().await, Arc::new(Hand::default()), event());
    hand.give(1, 1, Ok(event.clone()));
    hand.give(2, 2, Ok(event.clone()));
    let (heard, tries) = (place.heard.clone(), AtomicU32::new(0));
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            let fails = tries.fetch_add(1, Ordering::SeqCst) == 0;
            Box::pin(async move {
                effect!(tx, event);
                if fails { Err(Failure::later("once")) } else { Ok(()) }
            })
        },
        heard.until(2),
    );
    run.await.unwrap();
    assert_eq!(place.effects().await.len(), 1);
    assert_eq!(hand.ended(2), [End::Ack]);
}

#[tokio::test]
async fn what_will_never_work_and_what_is_no_event_are_dead_at_once() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    let foreign = Cause::new(Code::BadEvent, "it has no CloudEvents attribute \"id\"");
    hand.give(1, 1, Ok(event()));
    hand.give(2, 1, Err(foreign.clone()));
    let heard = place.heard.clone();
    let run = place
        .consumer(hand.clone())
        .run(|_, _| Box::pin(async { Err(Failure::never("unknown item")) }), heard.until(2));
    run.await.unwrap();
    let [End::Dead(cause)] = &hand.ended(1)[..] else { panic!("{:?}", hand.ends) };
    assert_eq!((cause.code, cause.detail.as_str()), (Code::ConsumerFailed, "unknown item"));
    assert_eq!(hand.ended(2), [End::Dead(foreign)]);
}

#[tokio::test]
async fn a_panic_of_the_work_is_a_failure_and_the_others_go_on() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    let (bad, good) = (event().key("bad"), event().key("good"));
    hand.give(1, 1, Ok(bad));
    hand.give(2, 1, Ok(good.clone()));
    let heard = place.heard.clone();
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            Box::pin(async move {
                assert_ne!(event.key.as_deref(), Some("bad"), "as the test wants");
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until(2),
    );
    run.await.unwrap();
    assert!(matches!(hand.ended(1)[..], [End::Again(_)]), "{:?}", hand.ends);
    assert_eq!(place.effects().await, [good.id.to_string()]);
    let told =
        |what: &Consumed| matches!(what, Consumed::Again(why) if why.detail.contains("wants"));
    assert_eq!(heard.count(told), 1);
}

#[tokio::test]
async fn an_event_that_kills_its_consumers_is_dead_in_the_end() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    hand.give(1, 24, Ok(event()));
    let heard = place.heard.clone();
    let run = place
        .consumer(hand.clone())
        .run(|_, _| Box::pin(async { panic!("it is not worked on") }), heard.until(1));
    run.await.unwrap();
    let [End::Dead(cause)] = &hand.ended(1)[..] else { panic!("{:?}", hand.ends) };
    assert_eq!(cause.code, Code::CrashLoop);
}

#[tokio::test]
async fn a_database_without_an_inbox_ends_the_run_and_the_event_comes_again() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    sqlx::query("DROP TABLE outbox_inbox").execute(&place.pool).await.unwrap();
    hand.give(1, 1, Ok(event()));
    let consumer = place.consumer(hand.clone());
    let run = consumer.run(|_, _| Box::pin(async { Ok(()) }), std::future::pending());
    let error = run.await.expect_err("it cannot go on");
    assert!(matches!(error, Error::Store(_)), "{error}");
    assert!(matches!(hand.ended(1)[..], [End::Again(_)]), "{:?}", hand.ends);
}
