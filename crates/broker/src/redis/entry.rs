//! An event as an entry of a stream, and back: each CloudEvents attribute is a field of its plain
//! name, the payload is the field `data`.
//!
//! There is no binding of CloudEvents for Redis. Fields hold any bytes, so nothing is encoded, and
//! what a client reads is what an SDK of CloudEvents wants: attributes and data. An entry whose
//! `data` is a whole event as one JSON document is read too.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event};
use redis::Value;

const DATA: &str = "data";
const CONTENT_TYPE: &str = "datacontenttype";

/// The fields of an entry, in order.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Refuses an event that can be no entry: one whose headers clash is a `bad-event`.
pub(super) fn check(event: &Event) -> Result<(), Cause> {
    event.headers.check().map_err(|invalid| Cause::new(Code::BadEvent, invalid))
}

/// Tells the fields of an event.
pub(super) fn fill(event: &Event, source: &str, mut field: impl FnMut(&str, &[u8])) {
    let envelope = Envelope::new(event, source);
    envelope.each(|name, value| field(name, value.as_bytes()));
    field(CONTENT_TYPE, envelope.content_type().as_bytes());
    field(DATA, event.payload.as_bytes());
}

/// Reads an event; `stream` is its topic if it names none.
pub(super) fn open(fields: &Fields, stream: &str) -> Result<Event, Cause> {
    let (mut attributes, mut data): (Vec<(Cow<'_, str>, Cow<'_, str>)>, _) = (Vec::new(), None);
    for (name, value) in fields {
        match std::str::from_utf8(name) {
            Ok(DATA) => data = Some(Bytes::copy_from_slice(value)),
            Ok(name) if is_attribute(name) => {
                attributes.push((name.into(), String::from_utf8_lossy(value)));
            }
            _ => {}
        }
    }
    let known = attributes.iter().any(|(name, _)| name == "specversion");
    match data {
        Some(data) if !known && data.trim_ascii_start().starts_with(b"{") => {
            Envelope::open_structured(&data, stream, |text| STANDARD.decode(text).ok())
        }
        data => Envelope::open(&attributes, data.unwrap_or_default(), stream),
    }
}

fn is_attribute(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
}

/// Reads the entries of a reply: ids and fields. An entry that was deleted has none, and is left
/// out.
pub(super) fn entries(value: &Value) -> Vec<(String, Fields)> {
    let entry = |value: &Value| {
        let [id, fields] = array(value) else { return None };
        let flat: Vec<&[u8]> = array(fields).iter().filter_map(bytes).collect();
        let pairs = flat.chunks_exact(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec()));
        let fields: Fields = pairs.collect();
        let id = String::from_utf8(bytes(id)?.to_vec()).ok()?;
        (!fields.is_empty()).then_some((id, fields))
    };
    array(value).iter().filter_map(entry).collect()
}

/// Reads a reply that has several parts.
pub(super) fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(parts) => parts,
        _ => &[],
    }
}

/// Reads a reply that is one text.
pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use event::Payload;

    use super::*;

    fn fields(event: &Event) -> Fields {
        let mut fields = Fields::new();
        fill(event, "orders", |name, value| fields.push((name.into(), value.to_vec())));
        fields
    }

    #[test]
    fn what_was_put_into_an_entry_comes_out_of_it() {
        let plain = Event::new("order.paid", "Paid", r#"{"n": 1e400}"#).key("ключ 100% \"€\" 😀");
        let mut bytes = Event::new("order.paid", "Paid", "");
        bytes.payload = Payload::Bytes(Bytes::from_static(&[0, 159, 146, 150]));
        let xml = Event::new("o", "O", "<a/>").header("datacontenttype", "application/xml");
        let traced = plain.clone().header("traceparent", "00-1-2-01").header("note", "Grüße\n");
        for event in [plain, bytes, xml, traced, Event::new("o", "O", "")] {
            check(&event).unwrap();
            assert_eq!(open(&fields(&event), "elsewhere").unwrap(), event);
        }
        let twice = Event::new("o", "O", "{}").header("trace-id", "1").header("TraceId", "1");
        assert_eq!(check(&twice).unwrap_err().code, Code::BadEvent);
    }

    #[test]
    fn an_event_in_one_document_is_read_and_what_is_none_is_told() {
        let event = Event::new("order.paid", "Paid", r#"{"total": 42}"#).key("7");
        let text = Envelope::new(&event, "orders").structured(|bytes| STANDARD.encode(bytes));
        let of = |name: &str, value: &[u8]| vec![(name.as_bytes().to_vec(), value.to_vec())];
        assert_eq!(open(&of("data", text.as_bytes()), "elsewhere").unwrap(), event);
        let foreign = [of("data", b"{}"), of("a", b"b"), of("\u{ff}", &[255]), Vec::new()];
        for fields in foreign {
            assert_eq!(open(&fields, "elsewhere").unwrap_err().code, Code::BadEvent);
        }
        let mut dead = fields(&event);
        dead.push((b"dead_code".to_vec(), b"bad-event".to_vec()));
        assert_eq!(open(&dead, "elsewhere").unwrap(), event, "the reason is no attribute");
    }

    #[test]
    fn entries_are_read_and_deleted_ones_left_out() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let whole = Value::Array(vec![text("a"), text("1"), text("b"), text("2")]);
        let reply = Value::Array(vec![
            Value::Array(vec![text("1-0"), whole]),
            Value::Array(vec![text("2-0"), Value::Nil]),
            Value::Nil,
        ]);
        let fields = vec![(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
        assert_eq!(entries(&reply), [("1-0".to_owned(), fields)]);
        assert_eq!(entries(&Value::Nil), []);
    }
}
