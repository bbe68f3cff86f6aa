//! Each event has its answer at its place, and what has a receipt is there as it was put.

use std::collections::HashSet;
use std::sync::Arc;

use event::{Event, Payload, Sink};
use tokio::task::JoinSet;

use crate::quay::Quay;
use crate::suite::passage::{Passage, all_taken, ids, in_order};

/// Everything that a careless writer trips over.
const TEXT: &str = "no JSON: \"\\ \t\r\n €😀 'x' ; DROP";

/// Payloads, keys, types, headers, ids and times come out as they went in.
pub async fn what_has_a_receipt_is_there_byte_for_byte(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let plain = || Event::new(&*passage.topic, "OrderPaid", r#"{"n": 1e400, "a":1,"a":2}"#);
    let mut bytes = plain().key("bytes");
    bytes.payload = Payload::Bytes((0..=255).collect::<Vec<u8>>().into());
    let mut text = plain().key("text").header("datacontenttype", "text/plain");
    text.payload = Payload::Text(TEXT.to_owned());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let events = [
        plain(),
        plain().key("ключ 100% \"€\" 😀/+&=#"),
        bytes,
        text,
        plain().key("7").header("schemaversion", "3").header("traceparent", trace),
        plain().key("8").header("note", "Grüße, 100% \"wörtlich\""),
    ];
    all_taken(&sink.publish(&events).await);
    reader.until(ids(&events)).await;
    for come in reader.events() {
        let put = events.iter().find(|event| event.id == come.id).expect("it was put");
        assert_eq!(&come, put);
    }
}

/// Text that is no JSON, and no text at all, come as they were put though nobody said what it is.
pub async fn text_that_is_no_json_arrives_letter_by_letter(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = ["", TEXT].map(|text| Event::new(&*passage.topic, "Text", text).key("7"));
    all_taken(&sink.publish(&events).await);
    reader.until(ids(&events)).await;
    assert_eq!(reader.events(), events);
}

/// Nothing is asked of a broker for nothing.
pub async fn nothing_is_answered_with_nothing(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    assert_eq!(passage.sink().await.publish(&[]).await, []);
}

/// Many keys in one batch do not disturb each other's order.
pub async fn keys_stay_in_order_within_a_batch(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = passage.events(16, 15);
    all_taken(&sink.publish(&events).await);
    reader.until(ids(&events)).await;
    in_order(&events, &reader.events());
}

/// A batch comes after the one before it.
pub async fn keys_stay_in_order_over_batches(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = passage.events(5, 36);
    for batch in events.chunks(12) {
        all_taken(&sink.publish(batch).await);
    }
    reader.until(ids(&events)).await;
    in_order(&events, &reader.events());
}

/// Where the broker gives ids of its own, no two receipts have one.
pub async fn receipts_carry_what_the_broker_calls_each_event(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let events = passage.events(4, 5);
    let answers = sink.publish(&events).await;
    all_taken(&answers);
    let receipts = answers.into_iter().filter_map(Result::ok);
    let named: Vec<String> = receipts.filter_map(|receipt| receipt.broker_id).collect();
    let distinct: HashSet<&String> = named.iter().collect();
    assert_eq!(distinct.len(), named.len(), "{named:?}");
    assert!(named.len() == events.len() || !quay.names(), "{named:?}");
    assert!(named.iter().all(|id| !id.is_empty()), "{named:?}");
    reader.until(ids(&events)).await;
}

/// Whoever publishes beside others gets the answers to its own events.
pub async fn publishes_made_at_once_keep_their_answers_apart(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let mut publishing = JoinSet::new();
    let mut all = Vec::new();
    for n in 0..6 {
        let mut events = passage.of_keys(&format!("caller-{n}"), 3, 8);
        // One of each is no event, at another place.
        events[n].headers.0.insert("trace-id".into(), "1".into());
        events[n].headers.0.insert("TraceId".into(), "1".into());
        let (sink, mine) = (Arc::clone(&sink), events.clone());
        publishing.spawn(async move { answers_fit(&sink, &mine, n).await });
        all.push(events);
    }
    let taken: HashSet<_> = publishing.join_all().await.into_iter().flatten().collect();
    reader.until(taken).await;
    for events in all {
        in_order(&events, &reader.events());
    }
}

/// Publishes events of three keys of which one is wrong; returns those that were taken.
async fn answers_fit(sink: &Arc<dyn Sink>, events: &[Event], wrong: usize) -> Vec<event::EventId> {
    let answers = sink.publish(events).await;
    assert_eq!(answers.len(), events.len());
    for (place, answer) in answers.iter().enumerate() {
        let held = place >= wrong && place % 3 == wrong % 3;
        assert_eq!(answer.is_err(), held, "{place} with {wrong} wrong: {answer:?}");
    }
    let taken = events.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    taken.map(|(event, _)| event.id).collect()
}
