//! An event as RocketMQ carries it, and back: the CloudEvents binding for RocketMQ.
//!
//! Attributes are properties `CE_name`, the media type is `CE_contenttype`. Names follow the rules
//! of RocketMQ and are mended rather than refused; what a consumer reads is never changed unseen.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Millis};
use sha2::{Digest, Sha256};

use super::Shape;
use super::wire::{resource, v2};
use crate::manner::Naming;

const PREFIX: &str = "CE_";
const CONTENT_TYPE: &str = "CE_contenttype";

/// Names the attributes whose control characters, which RocketMQ refuses, are percent-encoded.
const ENCODED: &str = "postbox-encoded";

/// Stands for no payload, which RocketMQ refuses; the CloudEvents binding has it so.
const NOTHING: &[u8] = &[0];

/// Says that a payload is that one byte, and not nothing.
const ONE_BYTE: &str = "postbox-one-byte";

/// A group of this many bytes is refused.
const GROUP: usize = 64;

/// How events become letters.
#[derive(Clone, Debug)]
pub(super) struct Letters {
    pub(super) source: String,
    pub(super) topic: Naming,
    pub(super) shape: Shape,
}

impl Letters {
    /// Writes one. An event that can be none is a `bad-event`.
    pub(super) fn write(&self, event: &Event) -> Result<v2::Message, Cause> {
        event.headers.check().map_err(|invalid| Cause::new(Code::BadEvent, invalid))?;
        let (user_properties, body) = self.content(event);
        let trace_context = event.headers.get("traceparent").filter(|it| !odd(it));
        let system = v2::SystemProperties {
            tag: tag(&event.kind),
            keys: keys(event),
            message_id: event.id.to_string(),
            body_encoding: v2::Encoding::Identity.into(),
            message_type: self.kind().into(),
            born_timestamp: Some(moment(Millis::now())),
            delivery_timestamp: self.due(event)?.map(moment),
            message_group: (self.shape == Shape::Fifo).then(|| group(event)),
            trace_context: trace_context.map(str::to_owned),
            ..Default::default()
        };
        Ok(v2::Message {
            topic: resource(&self.topic_of(event)),
            user_properties,
            system_properties: Some(system),
            body,
        })
    }

    /// Returns where an event goes.
    pub(super) fn topic_of(&self, event: &Event) -> String {
        topic(&self.topic.of(event))
    }

    fn kind(&self) -> v2::MessageType {
        match self.shape {
            Shape::Fifo => v2::MessageType::Fifo,
            Shape::Normal => v2::MessageType::Normal,
            Shape::Delay => v2::MessageType::Delay,
        }
    }

    fn content(&self, event: &Event) -> (HashMap<String, String>, Bytes) {
        let envelope = Envelope::new(event, &self.source);
        let mut properties = HashMap::new();
        let mut encoded = Vec::new();
        let media = ("contenttype".to_owned(), envelope.content_type().to_owned());
        for (name, value) in envelope.attributes().into_iter().chain([media]) {
            let value = if odd(&value) { encoded_of(&value, &name, &mut encoded) } else { value };
            properties.insert(format!("{PREFIX}{name}"), value);
        }
        for name in ["traceparent", "tracestate"] {
            if let Some(value) = event.headers.get(name).filter(|value| !odd(value)) {
                properties.insert(name.to_owned(), value.to_owned());
            }
        }
        if !encoded.is_empty() {
            properties.insert(ENCODED.to_owned(), encoded.join(","));
        }
        let body = event.payload.as_bytes();
        if body == NOTHING {
            properties.insert(ONE_BYTE.to_owned(), "true".to_owned());
        }
        let body = if body.is_empty() { NOTHING } else { body };
        (properties, Bytes::copy_from_slice(body))
    }

    /// Returns when a delayed event is handed out: at once if it names no moment.
    fn due(&self, event: &Event) -> Result<Option<Millis>, Cause> {
        if self.shape != Shape::Delay {
            return Ok(None);
        }
        let Some(text) = event.headers.get("deliver-at").map(str::trim) else {
            return Ok(Some(Millis::now()));
        };
        let due = text.parse().ok().map(Millis).or_else(|| Millis::parse(text));
        let wrong = "the header deliver-at is neither a moment such as 2026-11-15T20:00:00Z nor \
                     milliseconds since 1970";
        due.map(Some).ok_or_else(|| Cause::new(Code::BadEvent, wrong))
    }
}

/// Reads one. What is no event is a `bad-event` whose detail says why.
pub(super) fn open(letter: v2::Message) -> Result<Event, Cause> {
    let v2::Message { topic, user_properties: properties, system_properties, body } = letter;
    let topic = topic.map(|topic| topic.name).unwrap_or_default();
    let encoding = system_properties.map_or(0, |system| system.body_encoding);
    if encoding == i32::from(v2::Encoding::Gzip) {
        return Err(Cause::new(Code::BadEvent, "its body is compressed by its producer"));
    }
    let media = properties.get(CONTENT_TYPE);
    if media.is_some_and(|media| media.starts_with("application/cloudevents+json")) {
        return Envelope::open_structured(&body, &topic, |text| STANDARD.decode(text).ok());
    }
    let encoded = properties.get(ENCODED).map_or("", String::as_str);
    let mut attributes: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for (name, value) in &properties {
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let value = match encoded.split(',').any(|one| one == name) {
            true => Cow::from(crate::percent::decode(value)),
            false => Cow::from(value.as_str()),
        };
        let name = if name == "contenttype" { "datacontenttype" } else { name };
        attributes.push((name.to_ascii_lowercase().into(), value));
    }
    let nothing = body == NOTHING && !properties.contains_key(ONE_BYTE);
    Envelope::open(&attributes, if nothing { Bytes::new() } else { body }, &topic)
}

/// Makes the name of a topic one that RocketMQ allows.
pub(super) fn topic(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '%' | '|');
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// Returns the group of an event: what is handed out one after another. An event without a key is
/// a group of its own.
fn group(event: &Event) -> String {
    match event.key.as_deref() {
        None => event.id.to_string(),
        Some(key) if key.len() < GROUP && !key.trim().is_empty() && !odd(key) => key.to_owned(),
        Some(key) => {
            let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
            hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

fn tag(kind: &str) -> Option<String> {
    let mended = kind.replace(|c: char| c == '|' || c.is_control(), "_");
    let mended = mended.trim();
    (!mended.is_empty()).then(|| mended.to_owned())
}

/// Returns what a person finds it by. RocketMQ parts keys at blanks.
fn keys(event: &Event) -> Vec<String> {
    let parted = |c: char| c.is_whitespace() || c.is_control();
    let key = event.key.as_deref().map(|key| key.replace(parted, "_"));
    let key = key.filter(|key| !key.is_empty());
    [event.id.to_string()].into_iter().chain(key).collect()
}

fn odd(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn encoded_of(value: &str, name: &str, names: &mut Vec<String>) -> String {
    names.push(name.to_owned());
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        if c.is_control() || c == '%' {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn moment(at: Millis) -> prost_types::Timestamp {
    let nanos = at.0.rem_euclid(1000) * 1_000_000;
    let nanos = i32::try_from(nanos).expect("less than a second has less than 2^31 nanoseconds");
    prost_types::Timestamp { seconds: at.0.div_euclid(1000), nanos }
}

#[cfg(test)]
mod tests {
    use event::Payload;

    use super::*;

    fn letters(shape: Shape) -> Letters {
        Letters { source: "orders".to_owned(), topic: Naming::default(), shape }
    }

    fn system(shape: Shape, event: &Event) -> v2::SystemProperties {
        letters(shape).write(event).unwrap().system_properties.unwrap()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let plain = Event::new("order.paid", "Order|Paid", r#"{"n": 1}"#).key("123");
        let odd = Event::new("o", "T", "").key("two\nlines 100%").header("note", "a\tb%0A €");
        let mut nothing = Event::new("o", "T", "");
        nothing.payload = Payload::Bytes(Bytes::from_static(&[0]));
        let xml = Event::new("o", "T", "<a/>").header("datacontenttype", "application/xml");
        let traced = plain.clone().header("traceparent", "00-1-2-01");
        for event in [plain, odd, nothing, xml, traced] {
            let letter = letters(Shape::Fifo).write(&event).unwrap();
            assert!(letter.user_properties.values().all(|value| !super::odd(value)));
            assert!(!letter.body.is_empty(), "RocketMQ refuses an empty body");
            assert_eq!(open(letter).unwrap(), event);
        }
    }

    #[test]
    fn attributes_have_the_names_of_the_binding() {
        let event =
            Event::new("order.paid", "OrderPaid", "{}").key("123").header("traceparent", "00");
        let letter = letters(Shape::Fifo).write(&event).unwrap();
        let get = |name: &str| letter.user_properties.get(name).map(String::as_str);
        assert_eq!(get("CE_specversion"), Some("1.0"));
        assert_eq!(get("CE_contenttype"), Some("application/json"));
        assert_eq!(get("CE_datacontenttype"), None);
        assert_eq!((get("CE_type"), get("CE_bizkey")), (Some("OrderPaid"), Some("123")));
        assert_eq!((get("traceparent"), get("CE_traceparent")), (Some("00"), Some("00")));
        assert_eq!(letter.topic.unwrap().name, "order_paid");
    }

    #[test]
    fn a_group_is_the_key_or_its_hash_or_the_event_itself() {
        let group =
            |key: &str| system(Shape::Fifo, &Event::new("t", "T", "1").key(key)).message_group;
        assert_eq!(group("123").unwrap(), "123");
        assert_eq!(group(&"k".repeat(63)).unwrap().len(), 63);
        for hashed in [&"k".repeat(64), &"é".repeat(40), "a\nb", "  "] {
            let group = group(hashed).unwrap();
            assert!(group.len() == 40 && group.is_ascii(), "{group}");
        }
        let alone = Event::new("t", "T", "1");
        assert_eq!(system(Shape::Fifo, &alone).message_group, Some(alone.id.to_string()));
        assert_eq!(system(Shape::Normal, &alone).message_group, None);
    }

    #[test]
    fn tags_and_keys_are_mended_to_what_is_allowed() {
        let event = Event::new("t", "a|b\nc", "1").key("one two");
        let system = system(Shape::Fifo, &event);
        assert_eq!(system.tag.as_deref(), Some("a_b_c"));
        assert_eq!(system.keys, [event.id.to_string(), "one_two".to_owned()]);
        assert_eq!(system.message_id, event.id.to_string());
    }

    #[test]
    fn a_delay_is_a_moment_or_milliseconds_and_nothing_else() {
        let at = |text: &str| {
            let event = Event::new("t", "T", "1").header("deliver-at", text);
            letters(Shape::Delay).write(&event)
        };
        for text in ["2026-11-15T20:00:00.250Z", "1794772800250"] {
            let due = at(text).unwrap().system_properties.unwrap().delivery_timestamp.unwrap();
            assert_eq!((due.seconds, due.nanos), (1_794_772_800, 250_000_000), "{text}");
        }
        assert_eq!(at("tomorrow").unwrap_err().code, Code::BadEvent);
        assert!(system(Shape::Delay, &Event::new("t", "T", "1")).delivery_timestamp.is_some());
        let event = Event::new("t", "T", "1").header("deliver-at", "tomorrow");
        assert!(system(Shape::Fifo, &event).delivery_timestamp.is_none());
    }

    #[test]
    fn what_is_no_event_is_told() {
        let letter = v2::Message { body: Bytes::from_static(b"hi"), ..Default::default() };
        assert_eq!(open(letter).unwrap_err().code, Code::BadEvent);
        let event = Event::new("t", "T", "1");
        let mut packed = letters(Shape::Fifo).write(&event).unwrap();
        packed.system_properties.as_mut().unwrap().body_encoding = v2::Encoding::Gzip.into();
        assert!(open(packed).unwrap_err().detail.contains("compressed"));
    }
}
