//! Events in the CloudEvents binding for AMQP, binary mode, as AMQP 0.9.1 can carry it.
//!
//! The binding names headers `cloudEvents_…` or `cloudEvents:…`. The first is written, because it
//! is what the binding asks senders for (a colon is no part of a name in JMS); both are read. Pure:
//! nothing is offered here.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Millis};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, MAX_SHORT_STRING_LENGTH, ShortString};

use crate::manner::Naming;

const PREFIX: &str = "cloudEvents_";
const PREFIXES: [&str; 2] = [PREFIX, "cloudEvents:"];

/// Kept on disk, whatever the type of the queue.
const PERSISTENT: u8 = 2;

/// One event as it goes over the wire, besides its payload.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    /// Bytes of the properties, which must fit into one frame.
    pub(super) head: usize,
}

/// Writes one event. What AMQP cannot carry is a `bad-event`.
pub(super) fn fill(event: &Event, source: &str, topic: &Naming) -> Result<Filled, Cause> {
    event.headers.check().map_err(|invalid| Cause::new(Code::BadEvent, invalid))?;
    let envelope = Envelope::new(event, source);
    let (mut headers, mut head) = (FieldTable::default(), 0);
    let mut put = |name: String, value: &str| -> Result<(), Cause> {
        head += name.len() + value.len() + 6;
        headers.insert(short("the name of a header", name)?, AMQPValue::LongString(value.into()));
        Ok(())
    };
    for (name, value) in envelope.attributes() {
        // Where tracers look for it.
        if name == "traceparent" || name == "tracestate" {
            put(name.clone(), &value)?;
        }
        put(format!("{PREFIX}{name}"), &value)?;
    }
    let seconds = u64::try_from(event.created.0.div_euclid(1000)).unwrap_or_default();
    let mut properties = BasicProperties::default()
        .with_content_type(short("the content type", envelope.content_type())?)
        .with_delivery_mode(PERSISTENT)
        .with_message_id(event.id.to_string().into())
        .with_timestamp(seconds)
        .with_headers(headers);
    // It is among the headers anyway.
    if let Ok(kind) = ShortString::try_new(event.kind.as_str()) {
        properties = properties.with_type(kind);
    }
    let routing_key = short("the routing key", topic.of(event))?;
    Ok(Filled { routing_key, properties, head })
}

/// Reads what came as an event. `topic` is the routing key, for an event that names none.
pub(super) fn open(
    properties: &BasicProperties,
    data: Vec<u8>,
    topic: &str,
) -> Result<Event, Cause> {
    let media = properties.content_type().as_ref().map(ShortString::as_str);
    if media.is_some_and(|media| media.to_ascii_lowercase().starts_with("application/cloudevents"))
    {
        let unbase64 = |text: &str| STANDARD.decode(text).ok();
        return Envelope::open_structured(&data, topic, unbase64);
    }
    let mut attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for (name, value) in properties.headers().iter().flatten() {
        let name = PREFIXES.iter().find_map(|prefix| name.as_str().strip_prefix(prefix));
        if let Some((name, value)) = name.zip(text(value)) {
            let moment = (name == "time").then(|| value.parse().ok().map(Millis)).flatten();
            let value = moment.map_or(value, |moment| moment.to_string().into());
            attributes.push((name.into(), value));
        }
    }
    if let Some(media) = media {
        attributes.push(("datacontenttype".into(), media.into()));
    }
    Envelope::open(&attributes, Bytes::from(data), topic)
}

/// Returns how often the broker says that it has handed something out before. `x-delivery-count`
/// leaves out what was given back on purpose, but is all that versions before 4.3 tell.
pub(super) fn handed_out(properties: &BasicProperties) -> Option<u32> {
    let headers = properties.headers().as_ref()?.inner();
    let count = headers.get("x-acquired-count").or_else(|| headers.get("x-delivery-count"))?;
    text(count)?.parse().ok()
}

/// Returns a value as text; whole numbers and moments are told in milliseconds where they are a
/// time, as the binding of AMQP 1.0 does.
fn text(value: &AMQPValue) -> Option<Cow<'_, str>> {
    Some(match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::Boolean(value) => value.to_string().into(),
        AMQPValue::ShortShortInt(value) => value.to_string().into(),
        AMQPValue::ShortShortUInt(value) => value.to_string().into(),
        AMQPValue::ShortInt(value) => value.to_string().into(),
        AMQPValue::ShortUInt(value) => value.to_string().into(),
        AMQPValue::LongInt(value) => value.to_string().into(),
        AMQPValue::LongUInt(value) => value.to_string().into(),
        AMQPValue::LongLongInt(value) => value.to_string().into(),
        AMQPValue::Timestamp(seconds) => seconds.saturating_mul(1000).to_string().into(),
        _ => return None,
    })
}

fn short(what: &str, text: impl Into<String>) -> Result<ShortString, Cause> {
    ShortString::try_new(text).map_err(|_| {
        let detail = format_args!("{what} has more than {MAX_SHORT_STRING_LENGTH} bytes");
        Cause::new(Code::BadEvent, detail)
    })
}

/// Makes a table of arguments.
pub(super) fn table<const N: usize>(arguments: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert(name.into(), value);
    }
    table
}

/// Makes an argument of a text.
pub(super) fn words(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

#[cfg(test)]
mod tests {
    use event::Payload;

    use super::*;

    fn event() -> Event {
        Event::new("order.paid", "OrderPaid", r#"{"n": 1}"#)
            .key("ключ €")
            .header("traceparent", "00-1")
            .header("schema_version", "3")
    }

    fn header<'a>(filled: &'a Filled, name: &str) -> Option<Cow<'a, str>> {
        let headers = filled.properties.headers().as_ref().unwrap().inner();
        text(headers.get(name)?)
    }

    #[test]
    fn an_event_has_its_attributes_as_headers_and_its_id_as_the_id_of_the_message() {
        let event = event();
        let filled = fill(&event, "orders", &Naming::new("shop.{topic}").unwrap()).unwrap();
        assert_eq!(filled.routing_key.as_str(), "shop.order.paid");
        let properties = &filled.properties;
        let id = event.id.to_string();
        assert_eq!(properties.message_id().as_ref().unwrap().as_str(), id);
        assert_eq!(properties.kind().as_ref().unwrap().as_str(), "OrderPaid");
        assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/json");
        assert_eq!(*properties.delivery_mode(), Some(2));
        let seconds = u64::try_from(event.created.0 / 1000).unwrap();
        assert_eq!(*properties.timestamp(), Some(seconds));
        for (name, value) in [
            ("cloudEvents_specversion", "1.0"),
            ("cloudEvents_id", &id),
            ("cloudEvents_source", "orders"),
            ("cloudEvents_type", "OrderPaid"),
            ("cloudEvents_subject", "ключ €"),
            ("cloudEvents_schemaversion", "3"),
            ("cloudEvents_traceparent", "00-1"),
            ("traceparent", "00-1"),
        ] {
            assert_eq!(header(&filled, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn what_was_filled_opens_as_it_was() {
        let mut bytes = event();
        bytes.payload = Payload::Bytes(Bytes::from_static(&[0, 159, 146, 150]));
        for event in [event(), bytes, Event::new("t", "T", "").header("content-type", "text/plain")]
        {
            let filled = fill(&event, "orders", &Naming::default()).unwrap();
            let data = event.payload.as_bytes().to_vec();
            let opened = open(&filled.properties, data, "elsewhere").unwrap();
            let mut wanted = event;
            if let Some(media) = wanted.headers.0.remove("content-type") {
                wanted.headers.0.insert("datacontenttype".into(), media);
            }
            if let Some(version) = wanted.headers.0.remove("schema_version") {
                wanted.headers.0.insert("schemaversion".into(), version);
            }
            assert_eq!(opened, wanted);
        }
    }

    #[test]
    fn the_other_prefix_native_types_and_the_structured_form_are_read() {
        let id = event().id.to_string();
        let mut headers = FieldTable::default();
        for (name, value) in [("specversion", "1.0"), ("id", &id), ("type", "T"), ("source", "s")] {
            headers.insert(format!("cloudEvents:{name}").into(), words(value));
        }
        headers.insert("cloudEvents:time".into(), AMQPValue::LongLongInt(1_700_000_000_123));
        headers.insert("cloudEvents:count".into(), AMQPValue::LongInt(7));
        headers.insert("cloudEvents:ok".into(), AMQPValue::Boolean(true));
        headers.insert("somebody-elses".into(), words("x"));
        let properties = BasicProperties::default().with_headers(headers);
        let opened = open(&properties, b"{}".to_vec(), "key").unwrap();
        assert_eq!((opened.topic.as_str(), opened.created.0), ("key", 1_700_000_000_123));
        let headers: Vec<_> = opened.headers.0.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(headers, [("count", "7"), ("ok", "true")]);

        let json =
            format!(r#"{{"specversion":"1.0","id":"{id}","type":"T","source":"s","data":1}}"#);
        let media = "application/cloudevents+json; charset=utf-8";
        let properties = BasicProperties::default().with_content_type(media.into());
        let opened = open(&properties, json.into_bytes(), "key").unwrap();
        assert_eq!((opened.kind.as_str(), opened.payload.as_bytes()), ("T", &b"1"[..]));
    }

    #[test]
    fn what_is_no_event_or_cannot_be_carried_is_told() {
        let nothing = open(&BasicProperties::default(), b"hello".to_vec(), "key").unwrap_err();
        assert_eq!(nothing.code, Code::BadEvent);
        let long = Event::new("t".repeat(300), "T", "{}");
        let cause = fill(&long, "orders", &Naming::default()).unwrap_err();
        assert!(cause.detail.contains("routing key"), "{cause}");
        let twice = event().header("trace-id", "1").header("TraceId", "2");
        assert_eq!(fill(&twice, "o", &Naming::default()).unwrap_err().code, Code::BadEvent);
    }

    #[test]
    fn a_long_type_travels_as_an_attribute_only() {
        let event = Event::new("t", "T".repeat(300), "{}");
        let filled = fill(&event, "orders", &Naming::default()).unwrap();
        assert_eq!(filled.properties.kind(), &None);
        assert_eq!(header(&filled, "cloudEvents_type").as_deref(), Some(&*event.kind));
    }
}
