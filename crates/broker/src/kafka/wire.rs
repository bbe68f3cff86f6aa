//! An event as a record of Kafka: CloudEvents in binary form (its Kafka binding 1.0.2), and back.
//!
//! Attributes are headers `ce_…` in UTF-8; the key is the event's own, and so is the payload,
//! byte for byte. An event in structured form is read too.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event};
use rdkafka::message::{Header, Headers, OwnedHeaders};

const PREFIX: &str = "ce_";
const CONTENT_TYPE: &str = "content-type";
const STRUCTURED: &str = "application/cloudevents";

/// Bytes that a batch and a record take beside their keys, payloads and headers, at the most.
const BATCH: usize = 61 + 40;
const HEADER: usize = 10;
/// Headers that an event has by itself, and two more for a trace, which stands there twice.
const OURS: usize = 14;

/// The headers of an event, and how many bytes it takes in a batch of its own.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) headers: OwnedHeaders,
    pub(super) size: usize,
}

/// Writes the headers of an event. One that Kafka cannot carry is a `bad-event`.
pub(super) fn write(event: &Event, source: &str) -> Result<Written, Cause> {
    event.headers.check().map_err(bad)?;
    let envelope = Envelope::new(event, source);
    let size = BATCH + event.payload.len() + event.key.as_ref().map_or(0, String::len);
    let headers = OwnedHeaders::new_with_capacity(OURS + event.headers.0.len());
    let mut written = Written { headers, size };
    if event.headers.0.is_empty() {
        written = plain(written, event, source);
    } else {
        let mut name = String::from(PREFIX);
        for (attribute, value) in &envelope.attributes() {
            // A header ends at its first zero in the client library.
            if attribute.contains('\0') {
                return Err(bad("the name of a header holds a zero"));
            }
            name.truncate(PREFIX.len());
            name.push_str(attribute);
            written = written.put(&name, value);
            if attribute == "traceparent" || attribute == "tracestate" {
                written = written.put(attribute, value);
            }
        }
    }
    Ok(written.put(CONTENT_TYPE, envelope.content_type()))
}

/// Writes what the envelope says of an event to which its producer added nothing, without a copy of
/// every name and value: most of what handing an event over costs would be those.
fn plain(written: Written, event: &Event, source: &str) -> Written {
    let mut id = [0; 36];
    let id = &*event.id.uuid().hyphenated().encode_lower(&mut id);
    let mut written = written
        .put("ce_specversion", "1.0")
        .put("ce_id", id)
        .put("ce_source", source)
        .put("ce_type", &event.kind)
        .put("ce_time", &event.created.to_string())
        .put("ce_topic", &event.topic)
        .put("ce_messagekey", id);
    if let Some(sequence) = event.sequence {
        written = written.put("ce_sequence", &sequence.to_string());
    }
    let Some(key) = &event.key else { return written };
    written.put("ce_subject", key).put("ce_partitionkey", key).put("ce_bizkey", key)
}

impl Written {
    fn put(mut self, key: &str, value: &str) -> Written {
        self.size += HEADER + key.len() + value.len();
        self.headers = self.headers.insert(Header { key, value: Some(value) });
        self
    }
}

/// Reads an event; `topic` is its topic if it names none.
pub(super) fn read<H: Headers>(
    headers: Option<&H>,
    data: Bytes,
    topic: &str,
) -> Result<Event, Cause> {
    let mut attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for header in headers.into_iter().flat_map(Headers::iter) {
        let name = match header.key {
            CONTENT_TYPE => "datacontenttype",
            key => match key.strip_prefix(PREFIX) {
                Some(name) => name,
                None => continue,
            },
        };
        let value = std::str::from_utf8(header.value.unwrap_or_default());
        let value = value.map_err(|_| bad(format_args!("header {:?} is not UTF-8", header.key)))?;
        if name == "datacontenttype" && value.starts_with(STRUCTURED) {
            return Envelope::open_structured(&data, topic, |text| STANDARD.decode(text).ok());
        }
        attributes.push((name.into(), value.into()));
    }
    Envelope::open(&attributes, data, topic)
}

fn bad(why: impl std::fmt::Display) -> Cause {
    Cause::new(Code::BadEvent, why)
}

#[cfg(test)]
mod tests {
    use event::Payload;

    use super::*;

    fn header<'a>(headers: &'a OwnedHeaders, name: &str) -> Option<&'a str> {
        let found = headers.iter().find(|header| header.key == name)?;
        Some(std::str::from_utf8(found.value?).unwrap())
    }

    fn event() -> Event {
        Event::new("order.paid", "OrderPaid", r#"{"a":1}"#).key("ключ")
    }

    #[test]
    fn attributes_are_headers_in_utf_8() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let event = event().header("traceparent", trace).header("schema_version", "3");
        let Written { headers, size } = write(&event, "orders").unwrap();
        assert_eq!(header(&headers, "ce_specversion"), Some("1.0"));
        assert_eq!(header(&headers, "ce_id"), Some(&*event.id.to_string()));
        assert_eq!(header(&headers, "ce_partitionkey"), Some("ключ"));
        assert_eq!(header(&headers, "ce_schemaversion"), Some("3"));
        assert_eq!(header(&headers, "content-type"), Some("application/json"));
        let traces = ["traceparent", "ce_traceparent"].map(|name| header(&headers, name));
        assert_eq!(traces, [Some(trace); 2]);
        assert!(size > 300 && size < 1500, "{size}");
    }

    #[test]
    fn every_event_has_the_attributes_of_its_envelope_in_their_order() {
        let keyless = Event::new("order.paid", "OrderPaid", "{}");
        let mut keyed = event();
        keyed.sequence = event::Sequence::of(7);
        for event in [keyless, keyed.clone(), keyed.header("note", "1")] {
            let Written { headers, .. } = write(&event, "orders").unwrap();
            let text = |value: Option<&[u8]>| String::from_utf8(value.unwrap().to_vec()).unwrap();
            let pair = |it: Header<'_, &[u8]>| (it.key.to_owned(), text(it.value));
            let written: Vec<_> = headers.iter().map(pair).collect();
            let attributes = Envelope::new(&event, "orders").attributes().into_iter();
            let mut named: Vec<_> =
                attributes.map(|(name, value)| (format!("ce_{name}"), value)).collect();
            named.push((CONTENT_TYPE.to_owned(), "application/json".to_owned()));
            assert_eq!(written, named);
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let mut bytes = event();
        bytes.payload = Payload::Bytes(Bytes::from_static(&[0, 255]));
        for event in [event(), bytes, event().header("note", "Grüße \"100%\"")] {
            let Written { headers, .. } = write(&event, "orders").unwrap();
            let data = Bytes::copy_from_slice(event.payload.as_bytes());
            assert_eq!(read(Some(&headers), data, "elsewhere"), Ok(event));
        }
    }

    #[test]
    fn a_structured_event_is_read_too() {
        let event = event();
        let text = Envelope::new(&event, "orders").structured(|bytes| STANDARD.encode(bytes));
        let value = Some("application/cloudevents+json; charset=UTF-8");
        let headers = OwnedHeaders::new().insert(Header { key: "content-type", value });
        assert_eq!(read(Some(&headers), Bytes::from(text), "elsewhere"), Ok(event));
    }

    #[test]
    fn what_is_no_event_is_told_and_two_names_that_are_one_are_refused() {
        let none: Option<&OwnedHeaders> = None;
        let told = read(none, Bytes::from_static(b"{}"), "t").unwrap_err();
        assert_eq!(told.code, Code::BadEvent);
        let value: Option<&[u8]> = Some(&[255]);
        let headers = OwnedHeaders::new().insert(Header { key: "ce_id", value });
        let told = read(Some(&headers), Bytes::new(), "t").unwrap_err();
        assert!(told.detail.contains("ce_id"), "{told}");
        let twice = event().header("trace-id", "1").header("TraceId", "1");
        assert_eq!(write(&twice, "orders").unwrap_err().code, Code::BadEvent);
    }
}
