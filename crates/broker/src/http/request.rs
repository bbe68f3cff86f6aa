//! From an event to an HTTP request: CloudEvents over HTTP 1.0.2, signed as Standard Webhooks asks.
//!
//! Pure: the moment comes from outside, and nothing is offered here.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Millis, Payload, Secret};
use hyper::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use url::Url;

use super::Mode;
use crate::{percent, webhook};

/// How many headers there are at the most beside the common ones and those of the attributes.
const FURTHER: usize = 8;

/// What every request of one destination has in common.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) mode: Mode,
    pub(super) source: String,
    pub(super) secrets: Vec<Secret>,
    pub(super) headers: HeaderMap,
}

impl Form {
    /// Writes one event: its headers into an empty map, and its body. An event that cannot go over
    /// HTTP is a `bad-event`.
    pub(super) fn fill(
        &self,
        event: &Event,
        now: Millis,
        headers: &mut HeaderMap,
    ) -> Result<Bytes, Cause> {
        event.headers.check().map_err(|invalid| Cause::new(Code::BadEvent, invalid))?;
        let envelope = Envelope::new(event, &self.source);
        let attributes = envelope.attributes();
        headers.reserve(self.headers.len() + attributes.len() + FURTHER);
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
        for name in [TRACEPARENT, TRACESTATE] {
            if let Some((_, text)) = attributes.iter().find(|(other, _)| name == **other) {
                headers.insert(name.clone(), value(&name, text.clone())?);
            }
        }
        let body = match self.mode {
            Mode::Binary => {
                for (name, text) in attributes {
                    let text = encoded(&name, text)?;
                    let name = attribute(&name)?;
                    let value = value(&name, text)?;
                    headers.insert(name, value);
                }
                let media = value(&CONTENT_TYPE, envelope.content_type().to_owned())?;
                headers.insert(CONTENT_TYPE, media);
                match &event.payload {
                    Payload::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
                    Payload::Bytes(bytes) => bytes.clone(),
                }
            }
            Mode::Structured => {
                for (name, text) in attributes {
                    encoded(&name, text)?;
                }
                headers.insert(CONTENT_TYPE, STRUCTURED);
                Bytes::from(envelope.structured(|bytes| STANDARD.encode(bytes)))
            }
        };
        let id = event.id.to_string();
        if !self.secrets.is_empty() {
            let seconds = now.0.div_euclid(1000);
            let signature = webhook::sign(&self.secrets, &id, seconds, &body)
                .expect("the secrets were checked when the sink was made");
            headers.insert(WEBHOOK_ID, value(&WEBHOOK_ID, id.clone())?);
            headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(seconds));
            headers.insert(WEBHOOK_SIGNATURE, value(&WEBHOOK_SIGNATURE, signature)?);
        }
        headers.insert(IDEMPOTENCY_KEY, value(&IDEMPOTENCY_KEY, id)?);
        if body.is_empty() {
            // The library says nothing of a body that is not there.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(body)
    }
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const STRUCTURED: HeaderValue = HeaderValue::from_static("application/cloudevents+json");

/// Returns the name of an attribute's header. Those of every event need not be checked.
fn attribute(name: &str) -> Result<HeaderName, Cause> {
    Ok(match name {
        "specversion" => const { HeaderName::from_static("ce-specversion") },
        "id" => const { HeaderName::from_static("ce-id") },
        "source" => const { HeaderName::from_static("ce-source") },
        "type" => const { HeaderName::from_static("ce-type") },
        "time" => const { HeaderName::from_static("ce-time") },
        "topic" => const { HeaderName::from_static("ce-topic") },
        "messagekey" => const { HeaderName::from_static("ce-messagekey") },
        "sequence" => const { HeaderName::from_static("ce-sequence") },
        "subject" => const { HeaderName::from_static("ce-subject") },
        "partitionkey" => const { HeaderName::from_static("ce-partitionkey") },
        "bizkey" => const { HeaderName::from_static("ce-bizkey") },
        other => {
            let name = format!("ce-{other}");
            return HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(&name));
        }
    })
}

/// Encodes the value of an attribute. What is plain already holds no control character either.
fn encoded(name: &str, text: String) -> Result<String, Cause> {
    let coded = match percent::encode(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(coded) => Some(coded),
    };
    match coded {
        None => Ok(text),
        Some(_) if text.chars().any(char::is_control) => {
            let detail = format_args!("{name} holds a control character");
            Err(Cause::new(Code::BadEvent, detail))
        }
        Some(coded) => Ok(coded),
    }
}

fn value(name: &HeaderName, text: String) -> Result<HeaderValue, Cause> {
    if !text.is_ascii() {
        return Err(bad(name.as_str()));
    }
    HeaderValue::try_from(text).map_err(|_| bad(name.as_str()))
}

fn bad(name: &str) -> Cause {
    Cause::new(Code::BadEvent, format_args!("{name} cannot be an HTTP header"))
}

/// Returns the headers that every request to a URL has: ours, and the operator's own, whose values
/// never print, here or in a log.
pub(super) fn common(url: &Url, given: &[(String, Secret)]) -> Result<HeaderMap, Cause> {
    const AGENT: &str = concat!("postbox/", env!("CARGO_PKG_VERSION"));
    let mut headers = own(given)?;
    let (name, port) = (url.host_str().unwrap_or_default(), url.port());
    let host = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
    let host = HeaderValue::try_from(host).map_err(|_| {
        Cause::new(Code::ConfigInvalid, "url: its host is not one that HTTP allows")
    })?;
    headers.insert(HOST, host);
    for (name, value) in [(ACCEPT, "*/*"), (USER_AGENT, AGENT)] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    Ok(headers)
}

fn own(given: &[(String, Secret)]) -> Result<HeaderMap, Cause> {
    let mut headers = HeaderMap::new();
    for (name, secret) in given {
        let invalid = |why| Cause::new(Code::ConfigInvalid, format_args!("header {name:?} {why}"));
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid("is not a name HTTP allows"))?;
        if is_ours(key.as_str()) {
            return Err(invalid("is set by the sink itself"));
        }
        let mut text = HeaderValue::from_str(secret.reveal())
            .map_err(|_| invalid("has a value HTTP does not allow"))?;
        text.set_sensitive(true);
        headers.append(key, text);
    }
    Ok(headers)
}

fn is_ours(name: &str) -> bool {
    const OURS: [&str; 11] = [
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "te",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "upgrade",
    ];
    OURS.contains(&name) || name.starts_with("ce-") || name.starts_with("webhook-")
}
