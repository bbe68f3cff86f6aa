//! What a feed loses when a consumer dies or its broker is killed: nothing.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use broker::manner::Subscription;
use event::EventId;
use tokio::time::sleep;

use crate::quay::Quay;
use crate::suite::passage::{
    Bringer, LEASE, PATIENCE, Passage, Reader, ack, id_of, ids, in_order, next,
};

/// What a consumer had in hand when it died comes to another; before its followers only where the
/// broker keeps a group in order.
pub async fn a_consumer_that_dies_in_mid_work_loses_nothing(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (feed, events) = (passage.brief_feed().await, passage.events(4, 5));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let (mut taken, mut in_hand) = (HashSet::new(), 0);
    while in_hand < 2 {
        let delivery = next(&feed).await;
        match taken.len() {
            0..3 => {
                ack(&feed, &delivery).await;
                taken.extend(id_of(&delivery));
            }
            _ => in_hand += 1,
        }
    }
    // It says nothing to anybody.
    drop(feed);
    let reader = Reader::start(passage.brief_feed().await);
    reader.until(ids(&events).into_iter().filter(|id| !taken.contains(id))).await;
    bringing.done().await;
    if quay.traits().ordered {
        in_order(&events, &reader.events());
    }
}

/// A broker that is killed and comes back: the same feed goes on, and nothing is lost.
pub async fn a_feed_goes_on_after_its_broker_was_killed(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (reader, events) = (Reader::start(passage.brief_feed().await), passage.events(8, 25));
    let (before, after) = events.split_at(events.len() / 2);
    let sink = passage.sink().await;
    let bringing = Bringer::start(sink.clone(), before.to_vec());
    reader.until_some(20).await;
    quay.restart().await.expect("the broker comes back");
    bringing.done().await;
    let bringing = Bringer::start(sink, after.to_vec());
    reader.until(ids(&events)).await;
    bringing.done().await;
    in_order(&events, &reader.events());
    let often = reader.counts().into_values().max();
    assert!(often <= Some(3), "one event came {often:?} times");
}

/// While its broker sleeps, a feed answers in time, and goes on when it wakes.
pub async fn a_feed_goes_on_after_its_broker_slept(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let feed = passage.feed_with(|it| it.timeout = Duration::from_secs(2)).await;
    let (sink, first) = (passage.sink().await, passage.marker());
    let bringing = Bringer::start(sink.clone(), vec![first.clone()]);
    let come = next(&feed).await;
    ack(&feed, &come).await;
    bringing.done().await;
    quay.pause(true).await.expect("the broker can be stopped");
    let began = Instant::now();
    let asked = feed.next(Duration::from_secs(1)).await;
    let took = began.elapsed();
    quay.pause(false).await.expect("the broker goes on");
    assert!(!matches!(asked, Ok(Some(_))), "{asked:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    let events = passage.events(2, 5);
    let bringing = Bringer::start(sink, events.clone());
    let (mut left, until): (HashSet<EventId>, _) =
        (ids(&events).into_iter().collect(), Instant::now() + PATIENCE);
    while !left.is_empty() {
        let delivery = next(&feed).await;
        if let Some(id) = id_of(&delivery) {
            left.remove(&id);
        }
        let _ = feed.ack(delivery.handle).await;
        assert!(Instant::now() < until, "{} are left", left.len());
    }
    bringing.done().await;
}

/// What the broker handed out in an answer that was cut off is taken before anything newer of its
/// key, by the one feed of its group. Where events are brought to a feed, nothing is cut off that
/// its bringer would not bring again.
pub async fn what_an_answer_had_that_never_came_is_taken_before_anything_newer_of_its_key(
    quay: &dyn Quay,
) {
    const SOON: Duration = Duration::from_secs(5);
    let passage = Passage::new(quay).await;
    // Longer than it takes a feed to connect anew.
    let lease = 4 * LEASE;
    let wants = Subscription { lease, ..Subscription::new(&*passage.group, &[&passage.topic]) };
    let detour = quay.feed_detour(wants).await.expect("the options are right");
    let Some((line, feed)) = detour else { return };
    let (reader, sink) = (Reader::start(feed), passage.sink().await);
    for _ in 0..20 {
        let events = [(); 4].map(|()| passage.marker());
        Bringer::start(sink.clone(), events[..1].to_vec()).done().await;
        reader.until_ended(&[events[0].id]).await;
        let (lost, is_lost) = (&events[1], || line.holds(&events[1].id.to_string()));
        line.hold_answers(true);
        Bringer::start(sink.clone(), events[1..3].to_vec()).done().await;
        let until = Instant::now() + SOON;
        while !is_lost() && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
        if !is_lost() {
            // The feed had no question out at that moment.
            line.hold_answers(false);
            reader.until_ended(&[lost.id]).await;
            continue;
        }
        line.cut();
        line.hold_answers(false);
        Bringer::start(sink, events[3..].to_vec()).done().await;
        reader.until(ids(&events)).await;
        in_order(&events, &reader.events());
        return;
    }
    panic!("no answer was ever lost");
}
