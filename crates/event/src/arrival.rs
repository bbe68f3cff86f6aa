//! From what came over a wire back to an event: the other half of the envelope.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::envelope::means_json;
use crate::{Cause, Code, Envelope, Event, EventId, Headers, Millis, Payload, Sequence};

/// Attributes that are fields of an event and no headers of it.
const FIELDS: [&str; 11] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "topic",
    "messagekey",
    "subject",
    "partitionkey",
    "bizkey",
    Headers::CONTENT_TYPE,
];

impl Envelope<'_> {
    /// Reads an event in binary form: its attributes under their plain names, `datacontenttype`
    /// among them, and its payload. `topic` is the broker's own, for an event that names none. What
    /// is no event is a `bad-event` whose detail says why.
    pub fn open(
        attributes: &[(Cow<'_, str>, Cow<'_, str>)],
        data: Bytes,
        topic: &str,
    ) -> Result<Event, Cause> {
        let find = |name: &str| attributes.iter().find(|(known, _)| known == name);
        let get = |name: &str| find(name).map(|(_, value)| value.as_ref());
        let need = |name: &str| {
            let missing = || bad(format_args!("it has no CloudEvents attribute {name:?}"));
            get(name).ok_or_else(missing)
        };
        match need("specversion")? {
            "1.0" => {}
            other => return Err(bad(format_args!("CloudEvents {other:?} is not known, only 1.0"))),
        }
        let id: EventId = need("id")?.parse().map_err(bad)?;
        let kind = need("type")?.to_owned();
        let created = get("time").and_then(Millis::parse).unwrap_or_else(Millis::now);
        let key = get("bizkey").or(get("partitionkey")).or(get("subject")).map(str::to_owned);
        let (payload, usual) = payload(data, get(Headers::CONTENT_TYPE));
        let sequence: Option<Sequence> = get(Envelope::SEQUENCE).and_then(|it| it.parse().ok());
        let mut headers = Headers::default();
        for (name, value) in attributes {
            // A sequence that is not ours is the other publisher's header.
            let read = sequence.is_some() && name == Envelope::SEQUENCE;
            if !read && !FIELDS.contains(&name.as_ref()) {
                headers.0.insert(name.to_string(), value.to_string());
            }
        }
        if let Some(given) = get(Headers::CONTENT_TYPE).filter(|given| *given != usual) {
            headers.0.insert(Headers::CONTENT_TYPE.to_owned(), given.to_owned());
        }
        let topic = get("topic").unwrap_or(topic).to_owned();
        Ok(Event { id, topic, kind, key, payload, headers, created, sequence })
    }

    /// Reads an event in structured form (`application/cloudevents+json`). `base64` reads what
    /// `data_base64` holds.
    pub fn open_structured(
        json: &[u8],
        topic: &str,
        base64: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Event, Cause> {
        let object: std::collections::BTreeMap<String, &RawValue> = serde_json::from_slice(json)
            .map_err(|error| bad(format_args!("it is no JSON object: {error}")))?;
        let text = |raw: &RawValue| match serde_json::from_str::<String>(raw.get()) {
            Ok(text) => text,
            Err(_) => raw.get().to_owned(),
        };
        let attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = object
            .iter()
            .filter(|(name, raw)| {
                !["data", "data_base64"].contains(&name.as_str()) && raw.get() != "null"
            })
            .map(|(name, raw)| (Cow::from(name.as_str()), Cow::from(text(raw))))
            .collect();
        let data = match (object.get("data"), object.get("data_base64")) {
            (_, Some(encoded)) => {
                let unreadable = || bad("data_base64 is not base64");
                Bytes::from(base64(&text(encoded)).ok_or_else(unreadable)?)
            }
            // Letter by letter when it is JSON; a plain text was written as a JSON string.
            (Some(raw), None) if is_json(&attributes) => Bytes::from(raw.get().to_owned()),
            (Some(raw), None) => Bytes::from(text(raw)),
            (None, None) => Bytes::new(),
        };
        Envelope::open(&attributes, data, topic)
    }
}

fn is_json(attributes: &[(Cow<'_, str>, Cow<'_, str>)]) -> bool {
    let given = attributes.iter().find(|(name, _)| name == Headers::CONTENT_TYPE);
    given.is_none_or(|(_, media)| means_json(media))
}

/// Returns the payload, and the media type that a payload of its form has if nobody says another.
fn payload(data: Bytes, media: Option<&str>) -> (Payload, &'static str) {
    const TEXT: &str = "application/json";
    const BYTES: &str = "application/octet-stream";
    if !media.is_none_or(means_text) {
        return (Payload::Bytes(data), BYTES);
    }
    match String::from_utf8(data.into()) {
        Ok(text) => (Payload::Text(text), TEXT),
        Err(error) => (Payload::Bytes(error.into_bytes().into()), BYTES),
    }
}

fn means_text(media: &str) -> bool {
    let bare = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    bare.starts_with("text/") || bare.ends_with("xml") || means_json(&bare)
}

fn bad(why: impl std::fmt::Display) -> Cause {
    Cause::new(Code::BadEvent, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(event: &Event) -> Event {
        let envelope = Envelope::new(event, "orders");
        let mut attributes = envelope.attributes();
        attributes.push(("datacontenttype".into(), envelope.content_type().to_owned()));
        let attributes: Vec<_> =
            attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let data = Bytes::copy_from_slice(event.payload.as_bytes());
        Envelope::open(&attributes, data, "elsewhere").unwrap()
    }

    fn events() -> [Event; 4] {
        let plain =
            Event::new("order.paid", "OrderPaid", r#"{"n": 1e400, "a":1,"a":2}"#).key("123");
        let mut bytes = Event::new("order.paid", "OrderPaid", "");
        bytes.payload = Payload::Bytes(Bytes::from_static(&[0, 159, 146, 150]));
        let xml = Event::new("o", "O", "<a/>").header("datacontenttype", "application/xml");
        [plain.clone(), plain.header("traceparent", "00-1"), bytes, xml]
    }

    #[test]
    fn what_was_put_into_an_envelope_comes_out_of_it() {
        for event in events() {
            assert_eq!(round(&event), event);
        }
    }

    #[test]
    fn a_structured_envelope_brings_the_same_event() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let unhex = |text: &str| {
            let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
            (0..text.len()).step_by(2).map(byte).collect()
        };
        for event in events() {
            let text = Envelope::new(&event, "orders").structured(hex);
            let opened = Envelope::open_structured(text.as_bytes(), "elsewhere", unhex);
            assert_eq!(opened.unwrap(), event, "{text}");
        }
    }

    #[test]
    fn a_sequence_comes_back_and_one_that_is_not_ours_is_a_header() {
        let mut event = Event::new("t", "T", "{}").key("k");
        event.sequence = Sequence::of(42);
        assert_eq!(round(&event).sequence, Sequence::of(42));
        assert_eq!(round(&event).headers, Headers::default());

        let theirs = [("specversion", "1.0"), ("type", "T"), ("sequence", "7")];
        let id = event.id.to_string();
        let attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = theirs
            .into_iter()
            .chain([("id", id.as_str())])
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let opened = Envelope::open(&attributes, Bytes::new(), "t").unwrap();
        assert_eq!((opened.sequence, opened.headers.get("sequence")), (None, Some("7")));
    }

    #[test]
    fn an_attribute_that_is_null_is_not_there_and_one_that_begins_with_data_is() {
        let id = EventId::new();
        let text = format!(
            r#"{{"specversion":"1.0","id":"{id}","type":"T","subject":null,"dataset":"7",
            "datacontenttype":null,"data":{{"n":1}}}}"#
        );
        let event = Envelope::open_structured(text.as_bytes(), "t", |_| None).unwrap();
        assert_eq!((event.key.as_deref(), event.headers.get("dataset")), (None, Some("7")));
        assert_eq!(event.payload, Payload::Text(r#"{"n":1}"#.to_owned()));
    }

    #[test]
    fn what_is_no_event_is_told() {
        let whole = [("specversion", "1.0"), ("id", "no-uuid"), ("type", "T")];
        for left_out in 0..=3 {
            let attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = whole
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != left_out)
                .map(|(_, (name, value))| ((*name).into(), (*value).into()))
                .collect();
            let cause = Envelope::open(&attributes, Bytes::new(), "t").unwrap_err();
            assert_eq!(cause.code, Code::BadEvent);
            let named = whole.get(left_out).map_or("no-uuid", |(name, _)| name);
            assert!(cause.detail.contains(named) || left_out == 2, "{cause}");
        }
    }
}
