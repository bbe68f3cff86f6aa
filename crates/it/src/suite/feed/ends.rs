//! Ack, again, dead, extend: what ends a delivery, and what does not.

use std::time::{Duration, Instant};

use event::{Cause, Code, Feed, Nack};

use crate::quay::Quay;
use crate::suite::passage::{
    Bringer, LEASE, PATIENCE, Passage, Reader, ack, id_of, ids, name, next, next_of,
};

/// Without faults, a group gets each event once.
pub async fn what_was_published_comes_once_to_a_group(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let mut events = passage.events(4, 15);
    events.push(passage.marker());
    Bringer::start(sink, events.clone()).done().await;
    reader.until(ids(&events)).await;
    let counts = reader.counts();
    assert!(counts.len() == events.len() && counts.values().all(|it| *it == 1), "{counts:?}");
    reader.close().await;
}

/// Each group gets everything, whatever the others do.
pub async fn two_groups_each_get_everything(quay: &dyn Quay) {
    if !quay.traits().keeps {
        return;
    }
    let passage = Passage::new(quay).await;
    let other = Passage { quay, group: name("other"), topic: passage.topic.clone() };
    quay.join(&other.group, &other.topic).await.expect("a second group joins");
    let events = passage.events(4, 10);
    Bringer::start(passage.sink().await, events.clone()).done().await;
    for group in [&passage, &other] {
        let reader = group.reader().await;
        reader.until(ids(&events)).await;
        assert!(reader.counts().values().all(|count| *count == 1), "{:?}", reader.counts());
        reader.close().await;
    }
}

/// What was acked does not come again: not after the lease, and not to whoever joins later.
pub async fn an_ack_is_for_good(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, feed) = (passage.sink().await, passage.brief_feed().await);
    let events = passage.of_keys("a", 3, 1);
    let bringing = Bringer::start(sink.clone(), events.clone());
    let mut left = None;
    for _ in 0..events.len() {
        let delivery = next(&feed).await;
        match left {
            None => left = id_of(&delivery),
            Some(_) => ack(&feed, &delivery).await,
        }
    }
    // The one that was not ended comes again, which the others had as much time for.
    feed.close().await;
    let feed = passage.brief_feed().await;
    let again = next(&feed).await;
    assert_eq!(id_of(&again), left);
    ack(&feed, &again).await;
    bringing.done().await;
    feed.close().await;
    let (marker, feed) = (passage.marker().key("a-1"), passage.brief_feed().await);
    let bringing = Bringer::start(sink, vec![marker.clone()]);
    let last = next(&feed).await;
    assert_eq!(id_of(&last), Some(marker.id));
    ack(&feed, &last).await;
    bringing.done().await;
}

/// Without an ack it comes again when its holder has left.
pub async fn what_was_not_ended_comes_again_after_a_close(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (feed, events) = (passage.brief_feed().await, passage.events(3, 1));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    for _ in 0..2 {
        next(&feed).await;
    }
    feed.close().await;
    let reader = passage.reader().await;
    reader.until(ids(&events)).await;
    bringing.done().await;
}

/// Without an ack it comes again after its lease, to whoever asks.
pub async fn what_was_not_ended_comes_again_after_its_lease(quay: &dyn Quay) {
    if !quay.traits().leases {
        return;
    }
    let passage = Passage::new(quay).await;
    let (one, event) = (passage.brief_feed().await, passage.marker());
    let bringing = Bringer::start(passage.sink().await, vec![event.clone()]);
    let first = next(&one).await;
    assert_eq!(first.event.as_ref(), Ok(&event));
    assert!(!first.origin.is_empty(), "a person wants to know where it came from");
    let began = Instant::now();
    let other = passage.brief_feed().await;
    let second = next_of_either(&one, &other, event.id).await;
    assert!(began.elapsed() > LEASE / 2, "{:?}", began.elapsed());
    assert_eq!(second.1.event, Ok(event));
    if quay.traits().counts {
        assert_eq!((first.attempt, second.1.attempt), (1, 2));
    }
    ack(second.0, &second.1).await;
    bringing.done().await;
}

/// Again is after its time, and counted where the broker counts.
pub async fn again_comes_after_its_time(quay: &dyn Quay) {
    const AFTER: Duration = Duration::from_secs(2);
    let passage = Passage::new(quay).await;
    let (feed, event) = (passage.feed().await, passage.marker());
    let bringing = Bringer::start(passage.sink().await, vec![event.clone()]);
    let mut last = 0;
    for _ in 0..2 {
        let delivery = next_of(&feed, event.id).await;
        if quay.traits().counts {
            assert!(delivery.attempt > last, "{} after {last}", delivery.attempt);
        }
        last = delivery.attempt;
        let began = Instant::now();
        feed.nack(delivery.handle, Nack::Again(AFTER)).await.expect("the broker takes a nack");
        let again = next_of(&feed, event.id).await;
        assert!(began.elapsed() > AFTER * 3 / 4, "too soon: {:?}", began.elapsed());
        assert_eq!(again.event.as_ref(), Ok(&event));
        feed.nack(again.handle, Nack::Again(Duration::ZERO)).await.expect("it takes a nack");
        last = last.max(again.attempt);
    }
    let end = next_of(&feed, event.id).await;
    ack(&feed, &end).await;
    bringing.done().await;
}

/// What was given up comes no more and is kept, and those behind it come.
pub async fn dead_comes_no_more_and_is_kept(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let undertaker = name("undertaker");
    let kept = quay.dead(&passage.group, &passage.topic, &undertaker).await;
    let kept = kept.expect("the broker tells where its dead are");
    let (feed, events) = (passage.brief_feed().await, passage.events(1, 3));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let first = next_of(&feed, events[0].id).await;
    let why = Cause::new(Code::BadEvent, "the consumer cannot use it");
    feed.nack(first.handle, Nack::Dead(why)).await.expect("the broker takes a nack");
    let mut come = Vec::new();
    while come.len() < 2 {
        let delivery = next(&feed).await;
        assert_ne!(id_of(&delivery), Some(events[0].id), "it came again");
        ack(&feed, &delivery).await;
        come.extend(id_of(&delivery));
    }
    come.sort_unstable();
    let mut expected = ids(&events[1..]);
    expected.sort_unstable();
    assert_eq!(come, expected);
    let rejected = bringing.done().await;
    feed.close().await;
    match kept {
        Some(topic) => {
            let grave = Passage { quay, group: undertaker, topic };
            let reader = grave.reader().await;
            reader.until([events[0].id]).await;
            let found = reader.events().remove(0);
            assert_eq!(found.payload, events[0].payload);
            assert_eq!((found.key, found.kind), (events[0].key.clone(), events[0].kind.clone()));
        }
        None => assert_eq!(rejected, [events[0].id], "whoever published it has to know"),
    }
    // Nor does it come to whoever joins later.
    let (reader, marker) = (passage.reader().await, passage.marker());
    let bringing = Bringer::start(passage.sink().await, vec![marker.clone()]);
    reader.until([marker.id]).await;
    assert_eq!(reader.counts().len(), 1, "something that was ended came again");
    bringing.done().await;
}

/// Who says in time that it still works keeps what it has.
pub async fn extend_keeps_a_delivery_beyond_its_lease(quay: &dyn Quay) {
    if !quay.traits().leases {
        return;
    }
    let passage = Passage::new(quay).await;
    let (one, other) = (passage.brief_feed().await, passage.brief_feed().await);
    let event = passage.marker();
    let bringing = Bringer::start(passage.sink().await, vec![event.clone()]);
    let (holder, idle, delivery) = first_of_either(&one, &other).await;
    let until = Instant::now() + 3 * LEASE;
    while Instant::now() < until {
        holder.extend(delivery.handle, LEASE).await.expect("the broker gives more time");
        // Both ask all the while: nothing may come.
        for feed in [holder, idle] {
            let come = feed.next(LEASE / 6).await.expect("the broker answers");
            assert_eq!(come, None, "it was taken from its holder");
        }
    }
    ack(holder, &delivery).await;
    bringing.done().await;
    let marker = passage.marker();
    let bringing = Bringer::start(passage.sink().await, vec![marker.clone()]);
    let (holder, _, last) = first_of_either(&one, &other).await;
    assert_eq!(id_of(&last), Some(marker.id), "what was acked came again");
    ack(holder, &last).await;
    bringing.done().await;
}

/// Who comes back late ends nothing of the next holder's.
pub async fn a_stale_handle_ends_nothing_of_the_next_holders(quay: &dyn Quay) {
    if !quay.traits().leases {
        return;
    }
    let passage = Passage::new(quay).await;
    let (late, event) = (passage.brief_feed().await, passage.marker());
    let bringing = Bringer::start(passage.sink().await, vec![event.clone()]);
    let stale = next_of(&late, event.id).await;
    let holder = passage.feed_with(|it| it.lease = 2 * LEASE).await;
    let held = next_of(&holder, event.id).await;
    // An error or nothing, as the broker likes.
    let _ = late.ack(stale.handle).await;
    let _ = late.nack(stale.handle, Nack::Again(Duration::ZERO)).await;
    let _ = late.extend(stale.handle, 10 * LEASE).await;
    let _ = late.ack(stale.handle).await;
    late.close().await;
    let came = holder.next(LEASE / 2).await.expect("the broker answers");
    assert_eq!(came, None, "it was set free while somebody held it");
    holder.nack(held.handle, Nack::Again(Duration::ZERO)).await.expect("it was held");
    let again = next_of(&holder, event.id).await;
    ack(&holder, &again).await;
    bringing.done().await;
}

/// To end twice what one had does nothing the second time.
pub async fn what_was_ended_is_ended_once(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (feed, events) = (passage.feed().await, passage.events(2, 1));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let (first, second) = (next(&feed).await, next(&feed).await);
    ack(&feed, &first).await;
    let _ = feed.ack(first.handle).await;
    let _ = feed.nack(first.handle, Nack::Again(Duration::ZERO)).await;
    ack(&feed, &second).await;
    bringing.done().await;
    let marker = passage.marker();
    let bringing = Bringer::start(passage.sink().await, vec![marker.clone()]);
    let last = next(&feed).await;
    assert_eq!(id_of(&last), Some(marker.id), "what was acked came again");
    ack(&feed, &last).await;
    bringing.done().await;
}

/// What is no event comes with the reason, and the line goes on once it is ended.
pub async fn a_foreign_entry_comes_as_a_cause_and_does_not_stop_the_line(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let feed = passage.brief_feed().await;
    for bytes in [&b"{\"plain\": true}"[..], &[0, 159, 146, 150]] {
        quay.foreign(&passage.topic, bytes).await.expect("the broker takes bytes");
        let strange = next(&feed).await;
        let cause = strange.event.expect_err("it is no event");
        assert_eq!(cause.code, Code::BadEvent);
        feed.nack(strange.handle, Nack::Dead(cause)).await.expect("the broker takes a nack");
    }
    let events = passage.events(2, 3);
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let reader = Reader::start(feed);
    reader.until(ids(&events)).await;
    bringing.done().await;
}

/// No more is handed out than may be in hand.
pub async fn no_more_is_handed_out_than_may_be_in_hand(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (feed, events) = (passage.feed_with(|it| it.most = 2).await, passage.events(4, 1));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let (first, second) = (next(&feed).await, next(&feed).await);
    let third = feed.next(Duration::from_secs(1)).await.expect("the broker answers");
    assert_eq!(third, None, "two were in hand");
    ack(&feed, &first).await;
    let third = next(&feed).await;
    ack(&feed, &second).await;
    let fourth = next(&feed).await;
    for delivery in [third, fourth] {
        ack(&feed, &delivery).await;
    }
    bringing.done().await;
}

/// Where nothing comes, a feed says so in time.
pub async fn a_feed_without_events_says_so_in_time(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let feed = passage.feed().await;
    // With the first event it has joined.
    let bringing = Bringer::start(passage.sink().await, vec![passage.marker()]);
    let come = next(&feed).await;
    ack(&feed, &come).await;
    bringing.done().await;
    let began = Instant::now();
    assert_eq!(feed.next(Duration::from_millis(300)).await, Ok(None));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Who leaves does so soon.
pub async fn a_close_is_soon(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (feed, events) = (passage.feed().await, passage.events(2, 1));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    next(&feed).await;
    let began = Instant::now();
    feed.close().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let reader = Reader::start(passage.brief_feed().await);
    reader.until(ids(&events)).await;
    bringing.done().await;
}

type Feeds<'a> = &'a std::sync::Arc<dyn Feed>;

/// Asks two feeds in turns; returns the one that has it, the other, and what came.
async fn first_of_either<'a>(
    one: Feeds<'a>,
    other: Feeds<'a>,
) -> (Feeds<'a>, Feeds<'a>, event::Delivery) {
    let until = Instant::now() + PATIENCE;
    loop {
        for (feed, idle) in [(one, other), (other, one)] {
            if let Ok(Some(delivery)) = feed.next(Duration::from_millis(200)).await {
                return (feed, idle, delivery);
            }
            assert!(Instant::now() < until, "nothing comes to either");
        }
    }
}

/// Waits until an event comes to one of two feeds.
async fn next_of_either<'a>(
    one: Feeds<'a>,
    other: Feeds<'a>,
    id: event::EventId,
) -> (Feeds<'a>, event::Delivery) {
    loop {
        let (feed, _, delivery) = first_of_either(one, other).await;
        if id_of(&delivery) == Some(id) {
            return (feed, delivery);
        }
    }
}
