//! From an event to an HTTP request: CloudEvents over HTTP 1.0.2, signed as Standard Webhooks asks.
//!
//! Pure: the moment comes from outside, and nothing is offered here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Millis, Payload, Secret};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::Mode;
use crate::webhook;

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
        let body = match self.mode {
            Mode::Binary => {
                for (name, text) in &attributes {
                    put(&mut headers, &format!("ce-{name}"), &percent(text))?;
                }
                put(&mut headers, CONTENT_TYPE.as_str(), envelope.content_type())?;
                match &event.payload {
                    Payload::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
                    Payload::Bytes(bytes) => bytes.clone(),
                }
            }
            Mode::Structured => {
                put(&mut headers, CONTENT_TYPE.as_str(), "application/cloudevents+json")?;
                Bytes::from(envelope.structured(|bytes| STANDARD.encode(bytes)))
            }
        };
        for (name, text) in &attributes {
            if name == "traceparent" || name == "tracestate" {
                put(&mut headers, name, text)?;
            }
        }
        let id = event.id.to_string();
        put(&mut headers, "idempotency-key", &id)?;
        if !self.secrets.is_empty() {
            let seconds = now.0.div_euclid(1000);
            let signature = webhook::sign(&self.secrets, &id, seconds, &body)
                .expect("the secrets were checked when the sink was made");
            put(&mut headers, "webhook-id", &id)?;
            put(&mut headers, "webhook-timestamp", &seconds.to_string())?;
            put(&mut headers, "webhook-signature", &signature)?;
        }
        Ok((headers, body))
    }
}

fn put(headers: &mut HeaderMap, name: &str, text: &str) -> Result<(), Cause> {
    let bad = || Cause::new(Code::BadEvent, format_args!("{name} cannot be an HTTP header"));
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let value = HeaderValue::from_str(text).ok().filter(|_| text.is_ascii()).ok_or_else(bad)?;
    headers.insert(key, value);
    Ok(())
}

/// Encodes a value as the CloudEvents HTTP binding asks (§3.1.3.2): everything but printable ASCII,
/// and of that space, double quote and percent, becomes percent-encoded UTF-8.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'%' => out.push_str(&format!("%{byte:02X}")),
            0x21..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_binding_asks() {
        let cases = [
            ("plain-~!$&'()", "plain-~!$&'()"),
            ("a b\"c%d", "a%20b%22c%25d"),
            ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("\r\n\u{7f}", "%0D%0A%7F"),
        ];
        for (text, encoded) in cases {
            assert_eq!(percent(text), encoded);
        }
    }
}
