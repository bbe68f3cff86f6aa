//! What goes into an envelope comes out of it byte for byte, in either form.

use std::borrow::Cow;

use bytes::Bytes;
use postbox_event::{Envelope, Event, Payload, Sequence};
use proptest::prelude::*;

const TEXTS: [&str; 9] = [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON",
    "application/cloudevents+json",
    "text/json",
    "text/plain",
    "text/plain; charset=utf-8",
    "application/xml",
    "image/svg+xml; charset=utf-8",
];

const BYTES: [&str; 4] = ["application/octet-stream", "image/png", "application/yaml", ""];

fn texts() -> impl Strategy<Value = String> {
    let json = prop_oneof![
        Just(r#"{"n": 12345678901234567890123, "a": 1, "a": 2}"#.to_owned()),
        Just("null".to_owned()),
        Just(r#""a string""#.to_owned()),
        Just("[1e400, -0.0]".to_owned()),
    ];
    let spaced = (0usize..3, json.clone(), 0usize..3)
        .prop_map(|(left, json, right)| "\n".repeat(left) + &json + &" ".repeat(right));
    prop_oneof![Just(String::new()), json, spaced, any::<String>(), "[{}\\[\\]\",:0-9a\\\\ ]{0,8}"]
}

fn payloads() -> impl Strategy<Value = Payload> {
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..24),
        texts().prop_map(String::into_bytes),
    ];
    prop_oneof![
        texts().prop_map(Payload::Text),
        bytes.prop_map(|bytes| Payload::Bytes(Bytes::from(bytes))),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    let media = proptest::sample::select([&TEXTS[..], &BYTES[..]].concat());
    let given = proptest::option::weighted(0.9, media);
    (payloads(), given, any::<i64>(), any::<bool>()).prop_map(|(payload, media, seq, header)| {
        let mut event = Event { payload, sequence: Sequence::of(seq), ..Event::new("t", "T", "") };
        event = if header { event.key("k").header("dataset", "7") } else { event };
        match media {
            Some(media) => event.header("datacontenttype", media),
            None => event,
        }
    })
}

/// Takes an event through the binary form.
fn binary(event: &Event) -> Event {
    let envelope = Envelope::new(event, "orders");
    let media = ("datacontenttype".to_owned(), envelope.content_type().to_owned());
    let attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = envelope
        .attributes()
        .into_iter()
        .chain([media])
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let data = Bytes::copy_from_slice(event.payload.as_bytes());
    Envelope::open(&attributes, data, "elsewhere").expect("it is an event")
}

/// Takes an event through the structured form.
fn structured(event: &Event) -> Event {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let unhex = |text: &str| {
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        (0..text.len()).step_by(2).map(byte).collect()
    };
    let text = Envelope::new(event, "orders").structured(hex);
    Envelope::open_structured(text.as_bytes(), "elsewhere", unhex).expect("it is an event")
}

/// Tells whether the media type says the same of a payload as its own form does.
fn is_plain(event: &Event) -> bool {
    let envelope = Envelope::new(event, "orders");
    match event.payload {
        Payload::Text(_) => TEXTS.contains(&envelope.content_type()),
        Payload::Bytes(_) => BYTES.contains(&envelope.content_type()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn both_forms_bring_every_payload_of_every_type_back(event in events()) {
        let (one, other) = (binary(&event), structured(&event));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(one.payload.as_bytes(), event.payload.as_bytes());
        prop_assert_eq!(one.sequence, event.sequence);
        let media = |event: &Event| Envelope::new(event, "orders").content_type().to_owned();
        prop_assert_eq!(media(&one), media(&event));
        if is_plain(&event) {
            // The usual type of a payload needs no header.
            let mut event = event;
            event.headers.0.retain(|name, _| one.headers.get(name).is_some());
            prop_assert_eq!(one, event);
        }
    }
}
