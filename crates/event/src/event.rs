//! An event: what a business transaction wants the rest of the company to hear.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::{Headers, Millis, Sequence};

/// The identity of an event, made by its producer. Consumers dedupe by it.
///
/// It is never a number that a table hands out: a failover hands those out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(Uuid);

impl EventId {
    /// Makes a new identity (UUIDv7: unique everywhere, sortable by time).
    #[allow(clippy::new_without_default, reason = "each call makes another identity")]
    pub fn new() -> EventId {
        EventId(Uuid::now_v7())
    }

    /// Wraps a UUID that the caller made.
    pub const fn from_uuid(uuid: Uuid) -> EventId {
        EventId(uuid)
    }

    /// Returns the UUID.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.hyphenated())
    }
}

impl FromStr for EventId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<EventId, Invalid> {
        Uuid::try_parse(text).map(EventId).map_err(|_| Invalid::Id(text.chars().take(64).collect()))
    }
}

/// What an event carries: text kept letter by letter, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// UTF-8 text, nearly always JSON.
    Text(String),
    /// Anything else.
    Bytes(Bytes),
}

impl Payload {
    /// Returns the payload as it goes over a wire.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Payload::Text(text) => text.as_bytes(),
            Payload::Bytes(bytes) => bytes,
        }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Tells whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The identity, and the key that consumers dedupe by.
    pub id: EventId,
    /// Where it goes: routes match on it.
    pub topic: String,
    /// What happened (`event_type`).
    pub kind: String,
    /// The business key: the order key and the shard key. Without one there is no order to keep.
    pub key: Option<String>,
    /// What it carries.
    pub payload: Payload,
    /// Named values beside the payload.
    pub headers: Headers,
    /// When the row was written, by the database's clock.
    pub created: Millis,
    /// Where the row stood in line, as a claim or an envelope tells it. Putting an event gives it
    /// one; a listing shows none, and an event that was put with a time has none.
    pub sequence: Option<Sequence>,
}

impl Event {
    /// Makes an event with a fresh identity and a text payload.
    pub fn new(
        topic: impl Into<String>,
        kind: impl Into<String>,
        payload: impl Into<String>,
    ) -> Event {
        Event {
            id: EventId::new(),
            topic: topic.into(),
            kind: kind.into(),
            key: None,
            payload: Payload::Text(payload.into()),
            headers: Headers::default(),
            created: Millis::now(),
            sequence: None,
        }
    }

    /// Sets the business key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Event {
        self.key = Some(key.into());
        self
    }

    /// Sets one header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Event {
        self.headers.0.insert(name.into(), value.into());
        self
    }

    /// Checks the event against limits that every database and broker can keep: those given, or
    /// the usual ones where these are stricter.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        name("topic", &self.topic)?;
        name("event_type", &self.kind)?;
        if let Some(key) = &self.key {
            name("biz_key", key)?;
        }
        self.headers.check()?;
        for (header, value) in &self.headers.0 {
            name("header name", header)?;
            if has_control(value) {
                return Err(Invalid::Control { what: "header value", text: header.clone() });
            }
        }
        let usual = Limits::default();
        let (size, limit) = (self.payload.len(), limits.payload.min(usual.payload));
        if size > limit {
            return Err(Invalid::Payload { size, limit });
        }
        let (size, limit) = (self.headers.size(), limits.headers.min(usual.headers));
        if size > limit {
            return Err(Invalid::HeadersSize { size, limit });
        }
        Ok(())
    }
}

fn name(what: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > Limits::NAME {
        return Err(Invalid::Name { what, size: text.len() });
    }
    if has_control(text) {
        return Err(Invalid::Control { what, text: text.escape_default().take(64).collect() });
    }
    Ok(())
}

/// Tells whether a text holds a control character. Nearly every text is plain ASCII, of which the
/// bytes tell it.
fn has_control(text: &str) -> bool {
    let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    !plain && text.chars().any(char::is_control)
}

/// How large an event may be. The usual limits are the highest: what is larger does not pass every
/// database and broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of payload.
    pub payload: usize,
    /// Bytes of headers, as JSON.
    pub headers: usize,
}

impl Limits {
    /// Bytes of a topic, a type, a key or a header's name.
    pub const NAME: usize = 255;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { payload: 1024 * 1024, headers: 16 * 1024 }
    }
}

/// Why something is not an event. The text says what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    /// The identity is not a UUID.
    #[error("event_id {0:?} is not a UUID; leave it out, or write a UUIDv7")]
    Id(String),
    /// A name is empty or too long.
    #[error("{what} has {size} bytes; it takes 1 to 255")]
    Name {
        /// Which name.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
    },
    /// A line break or another control character would break a broker's headers.
    #[error("{what} {text:?} holds a control character; remove it")]
    Control {
        /// Which text.
        what: &'static str,
        /// The text, escaped.
        text: String,
    },
    /// The payload is too large.
    #[error(
        "payload has {size} bytes; the limit is {limit}: store it elsewhere and put a reference"
    )]
    Payload {
        /// Its size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The headers are too large.
    #[error("headers have {size} bytes; the limit is {limit}: move data into the payload")]
    HeadersSize {
        /// Their size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Two headers have one name on the wire.
    #[error("headers {one:?} and {other:?} are both {name:?}; keep one")]
    HeaderTwice {
        /// One header.
        one: String,
        /// The other.
        other: String,
        /// What both are called.
        name: String,
    },
    /// The headers are not a JSON object.
    #[error("headers are not a JSON object: {0}")]
    Headers(String),
}
