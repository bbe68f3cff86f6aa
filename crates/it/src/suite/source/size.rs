//! How much a claim hands out, and that what comes out is what went in.

use event::{Event, Headers, Payload, Want};

use crate::ground::Ground;
use crate::suite::act::{LEASE, SECOND, done, ids, ids_of, keyed, relay, retry, unkeyed};

/// A claim never hands out more events than it was asked for.
pub async fn a_claim_keeps_its_limit(ground: &dyn Ground) {
    let one = relay(ground).await;
    let now = ground.clock().now();
    for _ in 0..6 {
        one.put(&[unkeyed(), keyed("a")]).await;
        one.put_at(&unkeyed(), now).await;
    }
    let mut left = 18;
    for limit in [1, 2, 3, 5, 100] {
        let claims = one.claim(limit).await;
        assert!(claims.len() <= limit && !claims.is_empty(), "{} of {limit}", claims.len());
        one.end(&claims, &done()).await;
        left -= claims.len();
    }
    assert_eq!(one.count().await.pending(), left as u64);
}

/// A claim stops before its bytes are exceeded, but an event larger than that still goes alone.
pub async fn a_claim_keeps_its_bytes_but_one_event_always_fits(ground: &dyn Ground) {
    let one = relay(ground).await;
    let sized = |size: usize| Event::new("t", "T", "x".repeat(size));
    let events = [400, 400, 400, 5000, 10, 10].map(sized);
    one.put(&events).await;
    let want = Want { limit: 10, bytes: 1000, lease: LEASE };
    let mut came = Vec::new();
    for count in [2, 1, 1, 2] {
        let claims = one.lane.claim(&want).await.expect("the store hands out");
        assert_eq!(claims.len(), count);
        one.end(&claims, &done()).await;
        came.extend(ids(&claims));
    }
    assert_eq!(came, ids_of(&events));
}

/// When a transaction elsewhere ends, a claim meets rows again that are in hand: they are none of
/// its bytes.
pub async fn what_is_in_hand_needs_no_room_when_a_claim_looks_back(ground: &dyn Ground) {
    let one = relay(ground).await;
    let elsewhere = ground.elsewhere().await;
    let large = Event::new("t", "T", "x".repeat(5000));
    let (refused, fresh) = (unkeyed(), unkeyed());
    one.put(std::slice::from_ref(&refused)).await;
    let first = one.claim(1).await;
    one.put(&[large]).await;
    let _in_hand = one.claim(1).await;
    one.end(&first, &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    one.put(std::slice::from_ref(&fresh)).await;
    if let Some(open) = elsewhere {
        open.commit().await.expect("the transaction ends");
    }
    let want = Want { limit: 4, bytes: 1000, lease: LEASE };
    let claims = one.lane.claim(&want).await.expect("the store hands out");
    assert_eq!(ids(&claims), [refused.id, fresh.id]);
}

/// Text is kept letter by letter, bytes byte by byte, large ones too.
pub async fn payloads_come_back_byte_for_byte(ground: &dyn Ground) {
    let one = relay(ground).await;
    let text = |text: &str| Payload::Text(text.to_owned());
    let payloads = [
        text(r#"{"n":12345678901234567890123,"a":1,"a":2, "s":"\u0000\n\\\"/"}"#),
        text("日本語 Grüße 🚚 \u{200b}\u{feff}e\u{301}"),
        text("line\nline\r\n\ttab 'quote' \"double\" \\ % _ ; -- $1 ?"),
        text(""),
        text(&"ß".repeat(450_000)),
        Payload::Bytes(vec![0, 255, 10, 13, 39, 92, 0].into()),
        Payload::Bytes((0..900_000u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().into()),
        Payload::Bytes(b"plain text, given as bytes".to_vec().into()),
    ];
    let events: Vec<Event> =
        payloads.into_iter().map(|payload| Event { payload, ..Event::new("t", "T", "") }).collect();
    one.put(&events).await;
    let claims = one.claim(100).await;
    assert_eq!(ids(&claims), ids_of(&events));
    for (claim, event) in claims.iter().zip(&events) {
        assert!(claim.event.payload == event.payload, "{} came back changed", event.id);
        let listed = one.look(event.id).await;
        assert!(listed.event.payload == event.payload, "{} is listed changed", event.id);
    }
}

/// Everything beside the payload comes back as well, and the store's clock says when.
pub async fn headers_keys_and_names_come_back_letter_by_letter(ground: &dyn Ground) {
    let one = relay(ground).await;
    let event = Event::new("bestellung.bezahlt/ä", "Bezahlt 🚚", "{}")
        .key("Größe 'L' ; -- \\ %_")
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("x-quote", "\"it's\" \\ ü");
    let bare = unkeyed();
    one.put(&[event.clone(), bare.clone()]).await;
    let claims = one.claim(10).await;
    let created = ground.clock().now();
    assert_eq!(claims[0].event, Event { created, sequence: claims[0].event.sequence, ..event });
    assert_eq!(claims[1].event, Event { created, sequence: claims[1].event.sequence, ..bare });
    assert_eq!(claims[1].event.headers, Headers::default());
}

/// An event exists if and only if its transaction committed.
pub async fn an_event_of_a_rolled_back_transaction_is_not_there(ground: &dyn Ground) {
    if !ground.traits().transactions {
        return;
    }
    let one = relay(ground).await;
    ground.put_and_roll_back(&keyed("a")).await.expect("the transaction rolls back");
    assert_eq!(one.claim(10).await, []);
    assert_eq!(one.count().await.committed(), 0);
    assert_eq!(one.find(&Default::default()).await, []);
}
