//! What a sink refuses, and that nobody else suffers by it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use broker::manner::Manner;
use event::{Cause, Code, Event, Gauge, Inspection, Nack, Refusal, Topics};
use tokio::time::sleep;

use crate::quay::Quay;
use crate::suite::passage::{
    PATIENCE, Passage, Reader, ack, all_taken, brief, cause, ids, in_order, manner, name, next,
};

/// Events beyond this are too large to try.
const TRIED: usize = 32 << 20;
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// After a refusal, the later events of its key are not offered; other keys go on.
pub async fn a_refused_event_holds_its_followers_and_nobody_else(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let mut events = passage.events(3, 4);
    // Two names that are one on the wire: no broker ever sees this event.
    for name in ["trace-id", "TraceId"] {
        events[4].headers.0.insert(name.into(), "1".into());
    }
    let answers = sink.publish(&events).await;
    let Err(Refusal::Reject(cause)) = &answers[4] else { panic!("{answers:?}") };
    passage.clean(cause);
    for (place, answer) in answers.iter().enumerate() {
        match place {
            4 => {}
            7 | 10 => assert_eq!(answer, &Err(Refusal::Held), "{place}"),
            _ => assert!(answer.is_ok(), "{place}: {answer:?}"),
        }
    }
    let marker = passage.marker();
    all_taken(&sink.publish(std::slice::from_ref(&marker)).await);
    let taken = [0, 1, 2, 3, 5, 6, 8, 9, 11].map(|place| events[place].id);
    reader.until(taken.into_iter().chain([marker.id])).await;
    let come = reader.events();
    in_order(&events, &come);
    assert!([4, 7, 10].iter().all(|place| come.iter().all(|it| it.id != events[*place].id)));
}

/// What is too large is rejected with its size, and the events around it are taken.
pub async fn an_oversize_event_is_rejected_alone(quay: &dyn Quay) {
    let (passage, largest) = (Passage::new(quay).await, quay.traits().largest);
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let of =
        |key: &str, size: usize| Event::new(&*passage.topic, "Large", "x".repeat(size)).key(key);
    let fits = of("fits", largest.min(1 << 20));
    all_taken(&sink.publish(std::slice::from_ref(&fits)).await);
    reader.until([fits.id]).await;
    if largest > TRIED {
        return;
    }
    let events = [of("a", 10), of("b", largest + largest / 2), of("c", 10), of("b", 10)];
    let answers = sink.publish(&events).await;
    let Err(Refusal::Reject(cause)) = &answers[1] else { panic!("{answers:?}") };
    passage.clean(cause);
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(answers[3], Err(Refusal::Held), "its key waits");
    let marker = passage.marker();
    all_taken(&sink.publish(std::slice::from_ref(&marker)).await);
    reader.until([events[0].id, events[2].id, marker.id]).await;
    assert!(reader.events().iter().all(|come| come.id != events[1].id));
}

/// A topic that is not there is refused by name or made, as the broker's traits say; events of
/// topics that are there go on.
pub async fn an_unknown_topic_is_refused_by_name_or_made(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let topic = name("nobody-made-this");
    let events = [
        Event::new(&*passage.topic, "Known", "{}").key("a"),
        Event::new(&*topic, "Unknown", "{}").key("b"),
        Event::new(&*passage.topic, "Known", "{}").key("c"),
    ];
    let answers = sink.publish(&events).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    reader.until([events[0].id, events[2].id]).await;
    if quay.traits().knows_topics {
        let Err(Refusal::Retry(cause, _)) = &answers[1] else { panic!("{answers:?}") };
        passage.clean(cause);
        assert!(cause.detail.contains(&topic), "it does not name the topic: {cause}");
    } else {
        assert!(answers[1].is_ok(), "{answers:?}");
        let there = Passage { quay, group: passage.group.clone(), topic };
        there.reader().await.until([events[1].id]).await;
    }
}

/// Nobody is let in with a wrong password, no cause tells any, nothing arrives and nothing is dead.
pub async fn a_stranger_is_refused_and_no_secret_is_told(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let stranger = quay.stranger(brief()).await.expect("the options are right");
    let Some(stranger) = stranger else { return };
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = passage.events(2, 2);
    let answers = stranger.publish(&events).await;
    passage.clean_all(&answers);
    for answer in &answers {
        let waits = matches!(answer, Err(Refusal::Down(_) | Refusal::Retry(..) | Refusal::Held));
        assert!(waits, "a wrong password is the end of no event: {answer:?}");
    }
    assert!(matches!(&answers[0], Err(refusal) if cause(refusal).is_some()), "{answers:?}");
    if let Err(refusal) = stranger.probe().await {
        passage.clean(cause(&refusal).expect("a probe has a cause"));
    }
    only_the_marker_comes(&passage, &sink, &reader).await;
}

/// After a stop nothing new is offered; what was held never arrives.
pub async fn after_a_stop_nothing_new_is_offered(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (manner, reader) = (manner(), passage.reader().await);
    let stop = manner.stop.clone();
    let sink = quay.sink(manner).await.expect("the options are right");
    let events = passage.events(10, 50);
    let stopping = async {
        reader.until_some(1).await;
        stop.cancel();
    };
    let (answers, ()) = tokio::join!(sink.publish(&events), stopping);
    let taken = events.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let taken: Vec<_> = taken.map(|(event, _)| event.id).collect();
    assert!(!taken.is_empty(), "what was out was waited for");
    assert!(answers.iter().all(|it| matches!(it, Ok(_) | Err(Refusal::Held))), "{answers:?}");
    let late = passage.events(1, 3);
    assert_eq!(sink.publish(&late).await, vec![Err(Refusal::Held); 3]);
    let (marker, other) = (passage.marker(), passage.sink().await);
    all_taken(&other.publish(std::slice::from_ref(&marker)).await);
    reader.until(taken.iter().copied().chain([marker.id])).await;
    let come = reader.counts().len();
    assert_eq!(come, taken.len() + 1, "what was held has arrived");
}

/// Where the broker knows what it has, an event published twice comes once.
pub async fn a_repeated_event_is_one_delivery_where_the_broker_dedupes(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = passage.events(2, 3);
    for _ in 0..3 {
        all_taken(&sink.publish(&events).await);
    }
    let markers = [passage.marker(), passage.marker().key("key-1")];
    all_taken(&sink.publish(&markers).await);
    reader.until(ids(&events).into_iter().chain(ids(&markers))).await;
    let counts = reader.counts();
    if quay.traits().dedupes {
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    }
}

/// A look at the broker claims no more than such a broker can, and tells what its kind tells.
pub async fn a_look_at_the_broker_claims_no_more_than_is_so(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = passage.events(2, 3);
    all_taken(&sink.publish(&events).await);
    reader.until(ids(&events)).await;
    let (traits, seen) = (quay.traits(), sink.inspect().await.expect("the broker tells"));
    assert!(seen.durability <= traits.durability, "{seen:?}");
    for level in &seen.levels {
        assert!(traits.levels.contains(&level.gauge), "{level:?} is not in its traits");
        assert!(level.value.is_finite() && level.value >= 0.0, "{level:?}");
    }
    for finding in &seen.findings {
        assert!(!finding.what.is_empty() && !finding.detail.is_empty(), "{finding:?}");
        let secrets = quay.secrets();
        assert!(secrets.iter().all(|secret| !finding.detail.contains(secret)), "{finding:?}");
    }
    sink.probe().await.expect("a broker that is there answers");
    sink.close().await;
}

/// A look by who has published nothing counts, for the topics that lead there, exactly what such a
/// broker tells.
pub async fn a_look_counts_what_waits_and_what_was_given_up(quay: &dyn Quay) {
    let (passage, told) = (Passage::new(quay).await, quay.traits().levels);
    if told.is_empty() {
        return;
    }
    all_taken(&passage.sink().await.publish(&passage.events(2, 3)).await);
    let feed = passage.feed_with(|subscription| subscription.most = 1).await;
    let first = next(&feed).await;
    let why = Cause::new(Code::BadEvent, "as the test says");
    feed.nack(first.handle, Nack::Dead(why)).await.expect("the broker takes a nack");
    for _ in 0..2 {
        let delivery = next(&feed).await;
        ack(&feed, &delivery).await;
    }
    feed.close().await;
    let route = (passage.topic.parse().expect("a topic is a pattern"), true);
    let manner = Manner { topics: vec![Topics::of(vec![route])], ..manner() };
    let fresh = quay.sink(manner).await.expect("the options are right");
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = fresh.inspect().await.expect("the broker tells");
        let of = |gauge| Inspection::total(&seen.levels, gauge);
        let gauges: BTreeSet<Gauge> = seen.levels.iter().map(|level| level.gauge).collect();
        let counted = (of(Gauge::Lag), of(Gauge::Dead)) == (Some(3.0), Some(1.0));
        if counted && gauges.iter().eq(told) {
            break;
        }
        assert!(Instant::now() < until, "it tells {told:?}: {seen:?}");
        sleep(LOOK).await;
    }
    fresh.close().await;
}

async fn only_the_marker_comes(
    passage: &Passage<'_>,
    sink: &std::sync::Arc<dyn event::Sink>,
    reader: &Reader,
) {
    let markers = [passage.marker(), passage.marker().key("key-1")];
    all_taken(&sink.publish(&markers).await);
    reader.until(ids(&markers)).await;
    assert_eq!(reader.counts().len(), 2, "something else arrived");
}
