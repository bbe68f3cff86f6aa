//! From an event to an HTTP request: CloudEvents over HTTP 1.0.2, signed as Standard Webhooks asks.
//!
//! Pure: the moment comes from outside, and nothing is offered here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Millis, Payload, Secret};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::Mode;
use crate::{percent, webhook};

/// How many headers there are at the most beside those of the attributes.
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
    /// Writes one event. An event that cannot go over HTTP is a `bad-event`.
    pub(super) fn fill(&self, event: &Event, now: Millis) -> Result<(HeaderMap, Bytes), Cause> {
        event.headers.check().map_err(|invalid| Cause::new(Code::BadEvent, invalid))?;
        let envelope = Envelope::new(event, &self.source);
        let attributes = envelope.attributes();
        if let Some((name, _)) =
            attributes.iter().find(|(_, value)| value.chars().any(char::is_control))
        {
            let detail = format_args!("{name} holds a control character");
            return Err(Cause::new(Code::BadEvent, detail));
        }
        let mut headers = self.headers.clone();
        headers.reserve(attributes.len() + FURTHER);
        let body = match self.mode {
            Mode::Binary => {
                for (name, text) in &attributes {
                    put(&mut headers, attribute(name)?, &percent::encode(text))?;
                }
                put(&mut headers, CONTENT_TYPE, envelope.content_type())?;
                match &event.payload {
                    Payload::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
                    Payload::Bytes(bytes) => bytes.clone(),
                }
            }
            Mode::Structured => {
                put(&mut headers, CONTENT_TYPE, "application/cloudevents+json")?;
                Bytes::from(envelope.structured(|bytes| STANDARD.encode(bytes)))
            }
        };
        for name in ["traceparent", "tracestate"] {
            if let Some((_, text)) = attributes.iter().find(|(other, _)| other == name) {
                put(&mut headers, HeaderName::from_static(name), text)?;
            }
        }
        let id = event.id.to_string();
        put(&mut headers, HeaderName::from_static("idempotency-key"), &id)?;
        if !self.secrets.is_empty() {
            let seconds = now.0.div_euclid(1000);
            let signature = webhook::sign(&self.secrets, &id, seconds, &body)
                .expect("the secrets were checked when the sink was made");
            put(&mut headers, HeaderName::from_static("webhook-id"), &id)?;
            put(&mut headers, HeaderName::from_static("webhook-timestamp"), &seconds.to_string())?;
            put(&mut headers, HeaderName::from_static("webhook-signature"), &signature)?;
        }
        Ok((headers, body))
    }
}

/// Returns the name of an attribute's header. Those of every event need not be checked.
fn attribute(name: &str) -> Result<HeaderName, Cause> {
    Ok(HeaderName::from_static(match name {
        "specversion" => "ce-specversion",
        "id" => "ce-id",
        "source" => "ce-source",
        "type" => "ce-type",
        "time" => "ce-time",
        "topic" => "ce-topic",
        "messagekey" => "ce-messagekey",
        "sequence" => "ce-sequence",
        "subject" => "ce-subject",
        "partitionkey" => "ce-partitionkey",
        "bizkey" => "ce-bizkey",
        other => {
            let name = format!("ce-{other}");
            return HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(&name));
        }
    }))
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) -> Result<(), Cause> {
    let value = HeaderValue::from_str(text).ok().filter(|_| text.is_ascii());
    let value = value.ok_or_else(|| bad(name.as_str()))?;
    headers.insert(name, value);
    Ok(())
}

fn bad(name: &str) -> Cause {
    Cause::new(Code::BadEvent, format_args!("{name} cannot be an HTTP header"))
}

/// Reads the operator's own headers. Their values never print, here or in a log.
pub(super) fn own(given: &[(String, Secret)]) -> Result<HeaderMap, Cause> {
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
