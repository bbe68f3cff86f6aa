//! What a broker is told it hears: of a death until it answers, and of one thing at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postbox::{Cause, Code, Consumed, Event, Failure, Refusal};

use super::hand::{End, Hand};
use super::place::{Place, effect, place};

const LEASE: Duration = Duration::from_secs(60);

fn event() -> Event {
    Event::new("order.paid", "OrderPaid", "{}").key("123")
}

fn deaf(times: u32) -> Arc<Hand> {
    let hand = Hand::default();
    hand.deaf.store(times, Ordering::SeqCst);
    hand.give(1, 1, Ok(event()));
    Arc::new(hand)
}

/// Consumes what will never work, until a witness heard so much.
async fn never(place: &Place, hand: &Arc<Hand>, heard: usize) {
    let consumer = place.consumer(hand.clone()).lease(LEASE);
    let stop = place.heard.until(heard);
    let run = consumer.run(|_, _| Box::pin(async { Err(Failure::never("unknown item")) }), stop);
    run.await.unwrap();
}

#[tokio::test]
async fn a_broker_that_does_not_hear_of_a_death_is_told_again_and_only_then_is_it_dead() {
    let (place, hand) = (place().await, deaf(3));
    never(&place, &hand, 4).await;
    let [End::Dead(cause)] = &hand.ended(1)[..] else { panic!("{:?}", hand.ends) };
    assert_eq!(cause.code, Code::ConsumerFailed);
    let heard = place.heard.all.lock().unwrap();
    let [Consumed::Away(one), Consumed::Away(_), Consumed::Away(_), Consumed::Dead(dead)] =
        &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!((one.code, dead), (Code::SinkDown, cause));
    assert_eq!(*hand.extended.lock().unwrap(), [1; 3], "nobody else gets it meanwhile");
}

#[tokio::test]
async fn what_is_no_longer_in_hand_is_left_to_whoever_has_it() {
    let (place, hand) = (place().await, deaf(u32::MAX));
    let cause = Cause::new(Code::SinkRefused, "it is another's");
    *hand.lost.lock().unwrap() = Some(Refusal::Reject(cause));
    never(&place, &hand, 2).await;
    let heard = place.heard.all.lock().unwrap();
    assert!(matches!(heard[..], [Consumed::Away(_), Consumed::Again(_)]), "{heard:?}");
}

#[tokio::test]
async fn what_nobody_extends_for_a_whole_lease_is_no_longer_in_hand() {
    let (place, hand) = (place().await, deaf(u32::MAX));
    let cause = Cause::new(Code::SinkBroken, "the connection that it came by is gone");
    *hand.lost.lock().unwrap() = Some(Refusal::Unknown(cause));
    let (heard, lease) = (place.heard.clone(), Duration::from_millis(300));
    let run = place.consumer(hand.clone()).lease(lease).run(
        |_, _| Box::pin(async { Err(Failure::never("unknown item")) }),
        heard.until_heard(|what| matches!(what, Consumed::Again(_))),
    );
    tokio::time::timeout(Duration::from_secs(30), run).await.expect("it is given up").unwrap();
    assert!(heard.count(|what| matches!(what, Consumed::Away(_))) >= 3, "{:?}", heard.all);
    assert_eq!(hand.ended(1), []);
}

#[tokio::test]
async fn a_stop_gives_back_what_the_broker_did_not_hear_to_be_dead() {
    let (place, hand) = (place().await, deaf(1));
    never(&place, &hand, 1).await;
    assert_eq!(hand.ended(1), [End::Again(Duration::ZERO)]);
    let heard = place.heard.all.lock().unwrap();
    assert!(matches!(heard[..], [Consumed::Away(_), Consumed::Again(_)]), "{heard:?}");
}

#[tokio::test]
async fn an_extension_that_is_under_way_ends_before_the_delivery_does() {
    let (place, hand) = (place().await, Arc::new(Hand::default()));
    hand.give(1, 1, Ok(event()));
    *hand.slow.lock().unwrap() = Duration::from_millis(100);
    let (heard, asked) = (place.heard.clone(), hand.clone());
    let run = place.consumer(hand.clone()).lease(Duration::from_millis(30)).run(
        |tx, event| {
            let hand = asked.clone();
            Box::pin(async move {
                effect!(tx, event);
                while hand.extending.load(Ordering::SeqCst) == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok(())
            })
        },
        heard.until(1),
    );
    run.await.unwrap();
    assert_eq!(hand.ended(1), [End::Ack]);
    let (begun, ended) = (hand.extending.load(Ordering::SeqCst), hand.extended.lock().unwrap());
    assert_eq!(begun as usize, ended.len(), "none was cut off");
}
