//! One key after another, long work, and a stop in the midst of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postbox::Event;
use tokio::sync::Notify;

use super::hand::{End, Hand};
use super::place::{effect, place};

fn events(keys: usize, each: usize) -> Vec<Event> {
    let one = |n: usize| Event::new("t", "T", "{}").key(format!("key-{}", n % keys));
    (0..keys * each).map(one).collect()
}

#[tokio::test]
async fn the_events_of_a_key_are_worked_on_one_after_another_in_their_order() {
    let (place, hand, events) = (place().await, Arc::new(Hand::default()), events(4, 6));
    for (handle, event) in events.iter().enumerate() {
        hand.give(handle as u64, 1, Ok(event.clone()));
    }
    let (heard, busy) = (place.heard.clone(), Arc::new(Mutex::new(Vec::new())));
    let run = place.consumer(hand.clone()).at_once(4).run(
        |tx, event| {
            let busy = busy.clone();
            Box::pin(async move {
                let key = event.key.clone().unwrap_or_default();
                assert!(!busy.lock().unwrap().contains(&key), "two of {key} at once");
                busy.lock().unwrap().push(key.clone());
                effect!(tx, event);
                busy.lock().unwrap().retain(|other| *other != key);
                Ok(())
            })
        },
        heard.until(events.len()),
    );
    run.await.unwrap();
    let effects = place.effects().await;
    for key in 0..4 {
        let of_key = |id: &String| events.iter().position(|event| event.id.to_string() == *id);
        let places: Vec<_> = effects.iter().filter_map(of_key).filter(|n| n % 4 == key).collect();
        assert!(places.is_sorted() && places.len() == 6, "{places:?}");
    }
}

#[tokio::test]
async fn long_work_and_whoever_waits_behind_it_keep_what_they_have() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    for (handle, event) in events(1, 2).into_iter().enumerate() {
        hand.give(handle as u64, 1, Ok(event));
    }
    let (heard, asked) = (place.heard.clone(), hand.clone());
    let consumer = place.consumer(hand.clone()).lease(Duration::from_millis(30));
    let run = consumer.run(
        |tx, event| {
            let hand = asked.clone();
            Box::pin(async move {
                // As long as it takes until both have been extended thrice.
                let enough = |of: u64| {
                    hand.extended.lock().unwrap().iter().filter(|it| **it == of).count() >= 3
                };
                while !(enough(0) && enough(1)) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                effect!(tx, event);
                Ok(())
            })
        },
        heard.until(2),
    );
    run.await.unwrap();
    assert_eq!(place.effects().await.len(), 2);
}

#[tokio::test]
async fn a_stop_finishes_what_is_worked_on_and_puts_the_rest_back() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    let events = events(1, 3);
    for (handle, event) in events.iter().enumerate() {
        hand.give(handle as u64, 1, Ok(event.clone()));
    }
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, gate) = (begun.clone(), go.clone());
    let stop = async {
        begun.notified().await;
        go.notify_one();
    };
    let run = place.consumer(hand.clone()).run(
        |tx, event| {
            let (told, gate) = (told.clone(), gate.clone());
            Box::pin(async move {
                told.notify_one();
                gate.notified().await;
                effect!(tx, event);
                Ok(())
            })
        },
        stop,
    );
    run.await.unwrap();
    hand.give(9, 1, Ok(events[0].clone()));
    assert_eq!(hand.ended(0), [End::Ack]);
    for handle in [1, 2] {
        let ended = hand.ended(handle);
        let back = ended.is_empty() || ended == [End::Again(Duration::ZERO)];
        assert!(back, "{handle}: {ended:?}");
    }
    assert_eq!(hand.ended(9), [], "nothing new was taken");
    assert_eq!(place.effects().await, [events[0].id.to_string()]);
}

#[tokio::test]
async fn work_that_outlasts_the_drain_leaves_nothing() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    hand.give(0, 1, Ok(events(1, 1).remove(0)));
    let begun = Arc::new(Notify::new());
    let told = begun.clone();
    let consumer = place.consumer(hand.clone()).drain(Duration::from_millis(10));
    let run = consumer.run(
        |tx, event| {
            let told = told.clone();
            Box::pin(async move {
                effect!(tx, event);
                told.notify_one();
                std::future::pending().await
            })
        },
        begun.notified(),
    );
    run.await.unwrap();
    assert_eq!(hand.ended(0), [], "nobody said what became of it");
    assert!(*hand.closed.lock().unwrap(), "so the broker hands it out again");
    assert_eq!(place.effects().await, [""; 0]);
}
