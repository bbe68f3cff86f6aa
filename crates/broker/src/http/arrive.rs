//! From an HTTP request to an event: the signature first, then the CloudEvent in either layout.
//!
//! Pure: the moment comes from outside, and nothing is answered here.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event::{Cause, Code, Envelope, Event, Secret};

use crate::webhook::{self, Signed, WebhookError};

/// What came, once its signature holds.
pub(super) type Arrived = Result<Event, Cause>;

/// Checks that the body is ours and fresh. Whoever takes unsigned requests has no secrets.
pub(super) fn verify(
    secrets: &[Secret],
    headers: &HeaderMap,
    body: &[u8],
    now: i64,
    tolerance: Duration,
) -> Result<(), WebhookError> {
    if secrets.is_empty() {
        return Ok(());
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signed = Signed {
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp"),
        signature: text("webhook-signature"),
    };
    webhook::verify(secrets, signed, body, now, tolerance)?;
    // The signature covers no header but the id: one body under many ids would have many effects.
    match binary(headers).then(|| attribute(headers, "id")).flatten() {
        Some(id) if id != signed.id => Err(WebhookError::Signature),
        _ => Ok(()),
    }
}

/// Reads the event. What is none is a `bad-event`; `topic` is for an event that names none.
pub(super) fn open(headers: &HeaderMap, body: Bytes, topic: &str) -> Arrived {
    if binary(headers) {
        return Envelope::open(&attributes(headers), body, topic);
    }
    if media(headers).starts_with("application/cloudevents-batch") {
        let why = "a batch of events in one request is not taken; post each by itself";
        return Err(Cause::new(Code::BadEvent, why));
    }
    Envelope::open_structured(&body, topic, |text| STANDARD.decode(text).ok())
}

fn binary(headers: &HeaderMap) -> bool {
    !media(headers).starts_with("application/cloudevents")
}

fn media(headers: &HeaderMap) -> String {
    let given = headers.get("content-type").and_then(|value| value.to_str().ok());
    given.unwrap_or_default().to_ascii_lowercase()
}

fn attributes(headers: &HeaderMap) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let plain = |name: &HeaderName| name.as_str().strip_prefix("ce-").map(str::to_owned);
    let named = headers.keys().filter_map(plain);
    let mut out: Vec<(Cow<'_, str>, Cow<'_, str>)> = named
        .filter_map(|name| attribute(headers, &name).map(|value| (name.into(), value.into())))
        .collect();
    if let Some(media) = headers.get("content-type").and_then(|value| value.to_str().ok()) {
        out.retain(|(name, _)| name != "datacontenttype");
        out.push(("datacontenttype".into(), media.into()));
    }
    out
}

fn attribute(headers: &HeaderMap, name: &str) -> Option<String> {
    decode(headers.get(format!("ce-{name}"))?.as_bytes())
}

/// Decodes a value as the CloudEvents HTTP binding asks (§3.1.3.2): a value in double quotes is
/// unquoted, then one round of percent-decoding. What is not UTF-8 then is no value.
fn decode(raw: &[u8]) -> Option<String> {
    let unquoted = match raw {
        [b'"', inner @ .., b'"'] => unescape(inner),
        _ => raw.to_vec(),
    };
    let (mut out, mut at) = (Vec::with_capacity(unquoted.len()), 0);
    while let Some(&byte) = unquoted.get(at) {
        let hex = |at: usize| unquoted.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).ok()?);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

fn unescape(quoted: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next()),
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use event::Millis;

    use super::super::Mode;
    use super::super::request::Form;
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const MINUTES: Duration = Duration::from_secs(300);

    fn secrets() -> Vec<Secret> {
        vec![Secret::new(SECRET)]
    }

    fn post(event: &Event, mode: Mode, at: i64) -> (HeaderMap, Bytes) {
        let (source, headers) = ("orders".to_owned(), HeaderMap::new());
        let form = Form { mode, source, secrets: secrets(), headers };
        let mut headers = HeaderMap::new();
        let body = form.fill(event, Millis(at * 1000), &mut headers).unwrap();
        (headers, body)
    }

    fn event() -> Event {
        let event = Event::new("order.paid", "OrderPaid", r#"{"n": 1e400, "a":1,"a":2}"#);
        event.key("ключ 100% \"€\" 😀").header("note", "Grüße, \"wörtlich\" \\ 50%41")
    }

    #[test]
    fn what_the_sink_posts_is_the_same_event_here() {
        for mode in [Mode::Binary, Mode::Structured] {
            let event = event();
            let (headers, body) = post(&event, mode, 1000);
            assert_eq!(verify(&secrets(), &headers, &body, 1000, MINUTES), Ok(()));
            assert_eq!(open(&headers, body, "elsewhere"), Ok(event), "{mode:?}");
        }
    }

    #[test]
    fn what_is_not_signed_is_old_or_was_changed_is_refused() {
        let (headers, body) = post(&event(), Mode::Binary, 1000);
        let check =
            |headers: &HeaderMap, body: &[u8], now| verify(&secrets(), headers, body, now, MINUTES);
        assert_eq!(check(&headers, b"{}", 1000), Err(WebhookError::Signature));
        assert_eq!(check(&headers, &body, 1301), Err(WebhookError::Timestamp));
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut fewer = headers.clone();
            fewer.remove(name);
            assert!(check(&fewer, &body, 1000).is_err(), "{name}");
        }
        assert_eq!(verify(&[], &HeaderMap::new(), &body, 0, MINUTES), Ok(()));
    }

    #[test]
    fn a_signed_body_under_another_id_is_refused() {
        let (mut headers, body) = post(&event(), Mode::Binary, 1000);
        headers.insert("ce-id", event().id.to_string().parse().unwrap());
        let verified = verify(&secrets(), &headers, &body, 1000, MINUTES);
        assert_eq!(verified, Err(WebhookError::Signature));
    }

    #[test]
    fn values_are_decoded_as_the_binding_asks() {
        let cases = [
            ("plain", "plain"),
            ("a%20b%22c%25d", "a b\"c%d"),
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
            ("\"quoted \\\" and \\\\ %41\"", "quoted \" and \\ A"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
        ];
        for (raw, value) in cases {
            assert_eq!(decode(raw.as_bytes()).as_deref(), Some(value), "{raw}");
        }
        assert_eq!(decode(b"%ff"), None);
    }

    #[test]
    fn what_is_no_event_is_told_why() {
        let mut headers = HeaderMap::new();
        let plain = open(&headers, Bytes::from_static(b"{}"), "t").unwrap_err();
        assert_eq!(plain.code, Code::BadEvent);
        headers.insert("content-type", "application/cloudevents-batch+json".parse().unwrap());
        let batch = open(&headers, Bytes::from_static(b"[]"), "t").unwrap_err();
        assert!(batch.detail.contains("by itself"), "{batch}");
        headers.insert("content-type", "application/cloudevents+json".parse().unwrap());
        assert!(open(&headers, Bytes::from_static(b"no JSON"), "t").is_err());
    }
}
