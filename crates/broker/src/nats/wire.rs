//! An event as a message of NATS: CloudEvents in binary form, and back.
//!
//! Attributes are headers `ce-…`, percent-encoded as over HTTP; the payload is the event's own. An
//! event in structured form, with a content type or as older bindings had it without, is read too.

use std::borrow::Cow;

use async_nats::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Payload};

use crate::percent;

const PREFIX: &str = "ce-";
const CONTENT_TYPE: &str = "content-type";
const STRUCTURED: &str = "application/cloudevents+json";

/// Writes the headers and the payload of an event. One that NATS cannot carry is a `bad-event`.
pub(super) fn fill(
    event: &Event,
    source: &str,
    stream: Option<&str>,
) -> Result<(HeaderMap, Bytes), Cause> {
    event.headers.check().map_err(bad)?;
    let envelope = Envelope::new(event, source);
    let mut headers = HeaderMap::new();
    for (name, value) in envelope.attributes() {
        if value.chars().any(char::is_control) {
            return Err(bad(format_args!("{name} holds a control character")));
        }
        if name == "traceparent" || name == "tracestate" {
            put(&mut headers, &name, &value)?;
        }
        put(&mut headers, &format!("{PREFIX}{name}"), &percent::encode(&value))?;
    }
    put(&mut headers, CONTENT_TYPE, envelope.content_type())?;
    headers.insert(header::NATS_MESSAGE_ID, event.id.to_string());
    if let Some(stream) = stream {
        put(&mut headers, "Nats-Expected-Stream", stream)?;
    }
    let payload = match &event.payload {
        Payload::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
        Payload::Bytes(bytes) => bytes.clone(),
    };
    Ok((headers, payload))
}

/// Reads an event; `subject` is its topic if it names none.
pub(super) fn open(
    headers: Option<&HeaderMap>,
    payload: Bytes,
    subject: &str,
) -> Result<Event, Cause> {
    let mut attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    let mut structured = true;
    for (name, values) in headers.into_iter().flat_map(HeaderMap::iter) {
        let Some(value) = values.first() else { continue };
        let name = AsRef::<str>::as_ref(name).to_ascii_lowercase();
        if let Some(attribute) = name.strip_prefix(PREFIX) {
            let value = percent::decode(value.as_str());
            attributes.push((attribute.to_owned().into(), value.into()));
            structured = false;
        } else if name == CONTENT_TYPE && !value.as_str().starts_with(STRUCTURED) {
            attributes.push(("datacontenttype".into(), value.as_str().into()));
        }
    }
    if structured && payload.trim_ascii_start().starts_with(b"{") {
        let base64 = |text: &str| STANDARD.decode(text).ok();
        return Envelope::open_structured(&payload, subject, base64);
    }
    Envelope::open(&attributes, payload, subject)
}

/// Tells what is wrong with a subject to publish to, if anything is.
pub(super) fn check(subject: &str) -> Result<(), Cause> {
    let why = if subject.is_empty() {
        "it is empty"
    } else if subject.chars().any(|it| it.is_whitespace() || it.is_control()) {
        "it holds a blank"
    } else if subject.split('.').any(str::is_empty) {
        "a part between two dots is empty"
    } else if subject.split('.').any(|part| part == "*" || part == ">") {
        "it holds a wildcard"
    } else if subject.starts_with('$') || subject.starts_with("_INBOX.") {
        "it belongs to NATS itself"
    } else {
        return Ok(());
    };
    Err(bad(format_args!("{subject:?} cannot be a subject of NATS: {why}")))
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Cause> {
    let fits = value.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) && value.trim() == value;
    let value: Option<HeaderValue> = value.parse().ok().filter(|_| fits);
    let cannot = || bad(format_args!("{name} cannot be a header of NATS"));
    headers.insert(name, value.ok_or_else(cannot)?);
    Ok(())
}

fn bad(why: impl std::fmt::Display) -> Cause {
    Cause::new(Code::BadEvent, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(event: &Event) -> Event {
        let (headers, payload) = fill(event, "orders", None).unwrap();
        open(Some(&headers), payload, "elsewhere").unwrap()
    }

    #[test]
    fn what_was_put_into_a_message_comes_out_of_it() {
        let plain = Event::new("order.paid", "Paid", r#"{"n": 1e400}"#).key("ключ 100% \"€\" 😀");
        let mut bytes = Event::new("order.paid", "Paid", "");
        bytes.payload = Payload::Bytes(Bytes::from_static(&[0, 159, 146, 150]));
        let xml = Event::new("o", "O", "<a/>").header("datacontenttype", "application/xml");
        let traced = plain.clone().header("traceparent", "00-1-2-01").header("note", "Grüße");
        for event in [plain, bytes, xml, traced, Event::new("o", "O", "")] {
            assert_eq!(round(&event), event);
        }
    }

    #[test]
    fn the_id_the_stream_and_the_trace_have_headers_of_their_own() {
        let event = Event::new("o", "O", "{}").header("traceparent", "00-1-2-01");
        let (headers, _) = fill(&event, "orders", Some("ORDERS")).unwrap();
        let get = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        assert_eq!(get("Nats-Msg-Id"), Some(event.id.to_string()));
        assert_eq!(get("Nats-Expected-Stream").as_deref(), Some("ORDERS"));
        assert_eq!(get("traceparent").as_deref(), Some("00-1-2-01"));
        assert_eq!(get("ce-traceparent").as_deref(), Some("00-1-2-01"));
        assert_eq!(get("content-type").as_deref(), Some("application/json"));
    }

    #[test]
    fn what_no_header_can_carry_is_told() {
        let line = Event::new("o", "O\nce-type: evil", "{}");
        let media = Event::new("o", "O", "{}").header("content-type", "text/ключ");
        let twice = Event::new("o", "O", "{}").header("trace-id", "1").header("TraceId", "1");
        for event in [line, media, twice] {
            assert_eq!(fill(&event, "orders", None).unwrap_err().code, Code::BadEvent);
        }
    }

    #[test]
    fn a_structured_event_is_read_with_and_without_its_content_type() {
        let event = Event::new("order.paid", "Paid", r#"{"total": 42}"#).key("7");
        let text = Envelope::new(&event, "orders").structured(|bytes| STANDARD.encode(bytes));
        let mut headers = HeaderMap::new();
        headers.insert("Content-Type", "application/cloudevents+json; charset=utf-8");
        for headers in [None, Some(&headers)] {
            assert_eq!(open(headers, text.clone().into(), "elsewhere").unwrap(), event);
        }
        for foreign in ["", "hello", "{", r#"{"a": 1}"#] {
            let cause = open(None, foreign.into(), "elsewhere").unwrap_err();
            assert_eq!(cause.code, Code::BadEvent, "{foreign}");
        }
    }

    #[test]
    fn what_cannot_be_a_subject_is_told() {
        for good in ["order.paid", "order", "a-b_c.1", "заказ", "a.b*c", "order.>x"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for wrong in ["", "a b", "a..b", ".a", "a.", "a.*", ">", "$JS.API.INFO", "a\n", "_INBOX.a"]
        {
            assert_eq!(check(wrong).unwrap_err().code, Code::BadEvent, "{wrong}");
        }
    }
}
