//! An event as a broker takes it by the old protocol: the same properties that a proxy would write.

use std::fmt::Write as _;

use bytes::Bytes;
use event::{Cause, Code, Event, Millis};

use super::super::letter;
use super::super::wire::{resource, v2};
use super::route::Queue;

/// One in a request.
const ONE: i32 = 310;
/// Several in a request.
const SEVERAL: i32 = 320;

const BETWEEN: char = '\u{1}';
const BEHIND: char = '\u{2}';

/// Bytes of properties at the most; a broker takes 32 KiB, with its own additions.
const PROPERTIES: usize = 31 << 10;

/// Bytes of one event at the most: a broker breaks the connection off at a longer frame.
const FRAME: usize = 15 << 20;

/// Who publishes, as a broker lists it.
pub(super) const PRODUCER: &str = "postbox";

/// One event.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    /// The place of its event.
    pub(super) place: usize,
    /// What is kept in order.
    pub(super) key: Option<String>,
    pub(super) topic: String,
    /// What leads to its queue.
    pub(super) group: String,
    pub(super) id: String,
    properties: String,
    body: Bytes,
}

impl Parcel {
    /// Makes one of what would go to a proxy.
    pub(super) fn new(
        place: usize,
        key: Option<String>,
        letter: v2::Message,
    ) -> Result<Parcel, Cause> {
        let v2::Message { topic, user_properties, system_properties, body } = letter;
        let topic = topic.map(|topic| topic.name).unwrap_or_default();
        let system = system_properties.unwrap_or_default();
        let mut properties = Properties::default();
        for (name, value) in &user_properties {
            properties.put(name, value)?;
        }
        properties.put("UNIQ_KEY", &system.message_id)?;
        properties.put("KEYS", &system.keys.join(" "))?;
        properties.put("TAGS", system.tag.as_deref().unwrap_or_default())?;
        properties.put("TRACE_CONTEXT", system.trace_context.as_deref().unwrap_or_default())?;
        let group = system.message_group.unwrap_or_default();
        properties.put("__SHARDINGKEY", &group)?;
        if let Some(due) = system.delivery_timestamp {
            let millis = due.seconds * 1000 + i64::from(due.nanos) / 1_000_000;
            properties.put("TIMER_DELIVER_MS", &millis.to_string())?;
        }
        let (properties, id) = (properties.0, system.message_id);
        let parcel = Parcel { place, key, topic, group, id, properties, body };
        parcel.check()?;
        Ok(parcel)
    }

    fn check(&self) -> Result<(), Cause> {
        for (what, size, most) in [
            ("its properties have", self.properties.len(), PROPERTIES),
            ("it has", self.size(), FRAME),
        ] {
            if size > most {
                let detail = format!("{what} {size} bytes; the limit is {most}");
                return Err(Cause::new(Code::TooLarge, detail));
            }
        }
        Ok(())
    }

    /// Returns how many bytes it takes in a request with others.
    pub(super) fn size(&self) -> usize {
        const LENGTHS: usize = 5 * 4 + 2;
        LENGTHS + self.body.len() + self.properties.len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let long = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        out.extend(long(self.size()));
        // The broker fills in a magic number and a checksum; there are no flags.
        out.extend([0; 12]);
        out.extend(long(self.body.len()));
        out.extend(&self.body);
        let length = u16::try_from(self.properties.len()).unwrap_or(u16::MAX);
        out.extend(length.to_be_bytes());
        out.extend(self.properties.as_bytes());
    }
}

/// Reads an event from what a broker keeps of it. What is none is a `bad-event`.
pub fn opened(topic: &str, properties: &str, body: &[u8]) -> Result<Event, Cause> {
    let pairs = properties.split(BEHIND).filter_map(|pair| pair.split_once(BETWEEN));
    letter::open(v2::Message {
        topic: resource(topic),
        user_properties: pairs.map(|(name, value)| (name.into(), value.into())).collect(),
        system_properties: None,
        body: Bytes::copy_from_slice(body),
    })
}

#[derive(Default)]
struct Properties(String);

impl Properties {
    /// Adds one; what is empty cannot be written.
    fn put(&mut self, name: &str, value: &str) -> Result<(), Cause> {
        let parts = |text: &str| text.contains([BETWEEN, BEHIND]);
        if parts(name) || parts(value) {
            let detail = format!(
                "the property {name:?} holds U+0001 or U+0002, which part properties in RocketMQ"
            );
            return Err(Cause::new(Code::BadEvent, detail));
        }
        if !value.is_empty() {
            let _ = write!(self.0, "{name}{BETWEEN}{value}{BEHIND}");
        }
        Ok(())
    }
}

/// A request, ready to be asked.
pub(super) struct Request {
    pub(super) code: i32,
    fields: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
}

impl Request {
    /// Puts events of one topic, at least one, into a request to a queue: all of them are stored,
    /// or none.
    pub(super) fn new(parcels: &[Parcel], queue: &Queue) -> Request {
        let several = parcels.len() > 1;
        let (code, properties, body) = match parcels {
            [one] => (ONE, one.properties.clone(), one.body.clone()),
            _ => {
                let mut body = Vec::with_capacity(parcels.iter().map(Parcel::size).sum());
                parcels.iter().for_each(|parcel| parcel.write(&mut body));
                (SEVERAL, String::new(), body.into())
            }
        };
        let topic = parcels.first().map(|parcel| parcel.topic.clone()).unwrap_or_default();
        let fields = vec![
            ("a", PRODUCER.to_owned()),
            // A broker makes a missing topic like this one: itself, so that it makes none.
            ("c", topic.clone()),
            ("b", topic),
            ("d", "1".to_owned()),
            ("e", queue.number.to_string()),
            ("f", "0".to_owned()),
            ("g", Millis::now().0.to_string()),
            ("h", "0".to_owned()),
            ("i", properties),
            ("j", "0".to_owned()),
            ("k", "false".to_owned()),
            ("m", several.to_string()),
            ("n", queue.broker.clone()),
        ];
        Request { code, fields, body }
    }

    pub(super) fn fields(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Shape;
    use super::super::super::letter::Letters;
    use super::*;
    use crate::manner::Naming;

    fn parcel(event: &Event) -> Result<Parcel, Cause> {
        let (source, topic) = ("orders".to_owned(), Naming::default());
        let letters = Letters { source, topic, shape: Shape::Fifo };
        Parcel::new(0, event.key.clone(), letters.write(event).unwrap())
    }

    fn queue() -> Queue {
        Queue { broker: "a".to_owned(), number: 3, address: "127.0.0.1:1".to_owned() }
    }

    #[test]
    fn one_event_goes_with_its_properties_in_the_header() {
        let event = Event::new("order.paid", "OrderPaid", "{}").key("k 7");
        let request = Request::new(&[parcel(&event).unwrap()], &queue());
        let field = |name: &str| request.fields().iter().find(|it| it.0 == name).unwrap().1;
        assert_eq!((request.code, &*request.body), (310, &b"{}"[..]));
        assert_eq!((field("b"), field("e"), field("m")), ("order_paid", "3", "false"));
        let pairs: Vec<(&str, &str)> = field("i")
            .split_terminator(BEHIND)
            .map(|pair| pair.split_once(BETWEEN).unwrap())
            .collect();
        let id = event.id.to_string();
        for pair in [
            ("UNIQ_KEY", id.as_str()),
            ("CE_id", &id),
            ("KEYS", &format!("{id} k_7")),
            ("TAGS", "OrderPaid"),
            ("__SHARDINGKEY", "k 7"),
        ] {
            assert!(pairs.contains(&pair), "{pair:?} {pairs:?}");
        }
    }

    #[test]
    fn several_events_go_one_behind_another_in_the_body() {
        let events = ["one", "two"].map(|body| Event::new("t", "T", body).key("k"));
        let parcels: Vec<Parcel> = events.iter().map(|event| parcel(event).unwrap()).collect();
        let request = Request::new(&parcels, &queue());
        assert_eq!((request.code, request.fields()[11]), (320, ("m", "true")));
        let mut rest = &request.body[..];
        for (parcel, body) in parcels.iter().zip(["one", "two"]) {
            let (this, more) = rest.split_at(parcel.size());
            assert_eq!(this[..4], u32::try_from(parcel.size()).unwrap().to_be_bytes());
            assert_eq!(this[4..16], [0; 12]);
            assert_eq!((&this[16..20], &this[20..23]), (&[0, 0, 0, 3][..], body.as_bytes()));
            assert_eq!(&this[25..], parcel.properties.as_bytes());
            rest = more;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn what_was_written_is_read_again() {
        let odd = Event::new("o", "a|b", "").key("two\nlines 100%").header("note", "a\u{1}\u{2}");
        for event in [Event::new("t", "T", "{}").key("k"), odd] {
            let Parcel { topic, properties, body, .. } = parcel(&event).unwrap();
            assert_eq!(opened(&topic, &properties, &body), Ok(event));
        }
        assert_eq!(opened("t", "", b"hi").unwrap_err().code, Code::BadEvent);
    }

    #[test]
    fn what_no_broker_could_take_is_told_before_it_goes_out() {
        let long = Event::new("t", "T", "{}").header("note", "x".repeat(40_000));
        assert_eq!(parcel(&long).unwrap_err().code, Code::TooLarge);
        let large = Event::new("t", "T", "x".repeat(16 << 20));
        assert_eq!(parcel(&large).unwrap_err().code, Code::TooLarge);
        let mut properties = Properties::default();
        let cause = properties.put("note", "a\u{1}b").unwrap_err();
        assert!(cause.code == Code::BadEvent && cause.detail.contains("U+0001"), "{cause}");
        // Headers with such characters are written otherwise, and come back as they were.
        assert!(parcel(&Event::new("t", "T", "{}").header("note", "a\u{1}\u{2}")).is_ok());
    }
}
