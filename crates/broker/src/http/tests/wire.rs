//! What the destination gets to read, and what it cannot make us tell.

use std::time::Duration;

use event::{Code, Event, Millis, Payload, Secret, Sink};

use super::server::{Seen, Server, status, with};
use super::{cause, event, kind, options, publish_one, sink};
use crate::http::{Http, Mode, Options};
use crate::webhook::{self, Signed};

const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECOND: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

async fn seen(mode: Mode, event: Event) -> Seen {
    let server = Server::start(|_| status(200)).await;
    let http = Http::new(Options { mode, ..options(server.url()) }).unwrap();
    publish_one(&http, event).await.unwrap();
    server.seen().remove(0)
}

#[tokio::test]
async fn binary_mode_has_attributes_as_headers_and_the_payload_as_body() {
    let event =
        event().key("ключ 100%").header("schema_version", "3").header("traceparent", "00-1");
    let seen = seen(Mode::Binary, event.clone()).await;
    assert_eq!(seen.line, "POST /events?a=b HTTP/1.1");
    let id = event.id.to_string();
    let time = event.created.to_string();
    let expected = [
        ("ce-specversion", "1.0"),
        ("ce-id", &id),
        ("ce-source", "orders"),
        ("ce-type", "OrderPaid"),
        ("ce-time", &time),
        ("ce-topic", "order.paid"),
        ("ce-subject", "%D0%BA%D0%BB%D1%8E%D1%87%20100%25"),
        ("ce-schemaversion", "3"),
        ("ce-traceparent", "00-1"),
        ("traceparent", "00-1"),
        ("content-type", "application/json"),
        ("idempotency-key", &id),
        ("webhook-signature", ""),
    ];
    for (name, value) in expected {
        assert_eq!(seen.header(name), value, "{name}");
    }
    assert!(seen.header("user-agent").starts_with("postbox/"));
    assert_eq!(seen.body, br#"{"total": 42}"#);
}

#[tokio::test]
async fn nothing_of_a_request_or_its_response_is_in_the_next_request() {
    let server = Server::start(|_| with(200, "x-said: 1\r\n", "")).await;
    let http = sink(&server);
    publish_one(&http, event().key("a").header("note", "b")).await.unwrap();
    let bad = event().header("note", "c").header("content-type", "\0");
    assert!(publish_one(&http, bad).await.is_err());
    let second = event();
    publish_one(&http, second.clone()).await.unwrap();
    let seen = &server.seen()[1];
    assert_eq!(seen.header("ce-id"), second.id.to_string());
    let others = ["x-said", "ce-note", "ce-subject", "ce-bizkey"].map(|name| seen.header(name));
    assert_eq!(others, [""; 4]);
    let mut names: Vec<_> = seen.headers.iter().map(|(name, _)| name).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "each is there once: {names:?}");
}

#[tokio::test]
async fn every_request_says_whom_it_is_for_and_who_asks_unless_the_operator_does() {
    let server = Server::start(|_| status(200)).await;
    let headers = vec![("User-Agent".to_owned(), Secret::new("shop"))];
    let http = Http::new(Options { headers, ..options(server.url()) }).unwrap();
    publish_one(&http, event()).await.unwrap();
    http.probe().await.unwrap();
    for seen in server.seen() {
        assert_eq!(seen.header("host"), format!("127.0.0.1:{}", server.port));
        assert_eq!((seen.header("user-agent"), seen.header("accept")), ("shop", "*/*"));
    }
}

#[tokio::test]
async fn structured_mode_keeps_the_payload_letter_by_letter() {
    let payload = r#"{"n":12345678901234567890123,"a":1,"a":2}"#;
    let event = Event::new("t", "T", payload).header("tracestate", "a=1");
    let seen = seen(Mode::Structured, event).await;
    assert_eq!(seen.header("content-type"), "application/cloudevents+json");
    assert_eq!((seen.header("ce-id"), seen.header("tracestate")), ("", "a=1"));
    let text = String::from_utf8(seen.body).unwrap();
    assert!(text.ends_with(&format!(r#","data":{payload}}}"#)), "{text}");
}

#[tokio::test]
async fn bytes_travel_as_they_are_or_as_base64() {
    let bytes = Event { payload: Payload::Bytes(vec![0, 255, 10].into()), ..event() };
    let binary = seen(Mode::Binary, bytes.clone()).await;
    assert_eq!(binary.body, [0, 255, 10]);
    assert_eq!(binary.header("content-type"), "application/octet-stream");
    let structured = seen(Mode::Structured, bytes).await;
    let value: serde_json::Value = serde_json::from_slice(&structured.body).unwrap();
    assert_eq!(value["data_base64"], "AP8K");
}

#[tokio::test]
async fn an_empty_payload_says_that_it_is_empty() {
    let empty = Event { payload: Payload::Bytes(vec![].into()), ..event() };
    let lengths = |seen: &Seen| {
        let length = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-length");
        seen.headers.iter().filter(length).map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&seen(Mode::Binary, empty).await), ["0"]);
    assert_eq!(lengths(&seen(Mode::Binary, event()).await), ["13"]);
}

#[tokio::test]
async fn names_of_headers_are_the_same_in_any_case() {
    let given =
        || event().header("Content-Type", "text/csv; header=present").header("TraceParent", "00-1");
    let binary = seen(Mode::Binary, given()).await;
    assert_eq!(binary.header("content-type"), "text/csv; header=present");
    assert_eq!((binary.header("traceparent"), binary.header("ce-traceparent")), ("00-1", "00-1"));
    let extra = ["ce-contenttype", "ce-datacontenttype"].map(|name| binary.header(name));
    assert_eq!(extra, ["", ""], "the content type is no attribute in binary mode");
    let structured = seen(Mode::Structured, given()).await;
    let value: serde_json::Value = serde_json::from_slice(&structured.body).unwrap();
    assert_eq!(value["datacontenttype"], "text/csv; header=present");
    assert_eq!(value.get("contenttype"), None);
}

#[tokio::test]
async fn a_receiver_can_verify_the_signature_with_either_secret() {
    let server = Server::start(|_| status(200)).await;
    let secrets: Vec<Secret> = [FIRST, SECOND].map(Secret::new).into();
    let http = Http::new(Options { secrets, ..options(server.url()) }).unwrap();
    let event = event();
    publish_one(&http, event.clone()).await.unwrap();
    let seen = server.seen().remove(0);
    assert_eq!(seen.header("webhook-id"), event.id.to_string());
    let signed = Signed {
        id: seen.header("webhook-id"),
        timestamp: seen.header("webhook-timestamp"),
        signature: seen.header("webhook-signature"),
    };
    let now = Millis::now().0 / 1000;
    for secret in [FIRST, SECOND] {
        let secrets = [Secret::new(secret)];
        let tolerance = Duration::from_secs(60);
        webhook::verify(&secrets, signed, &seen.body, now, tolerance).unwrap();
        let other = webhook::verify(&secrets, signed, b"{}", now, tolerance);
        assert!(other.is_err(), "another body must not verify");
    }
}

#[tokio::test]
async fn an_event_that_would_break_the_headers_is_rejected_and_not_offered() {
    let server = Server::start(|_| status(200)).await;
    let break_in = "x\r\nauthorization: Bearer forged";
    let bad = [
        event().key(break_in),
        event().header("note", break_in),
        event().header("traceparent", break_in),
        event().header("tracestate", "clé=1"),
        event().header("content-type", break_in),
        event().header("content-type", "text/\0plain"),
        event().header("trace-id", "1").header("TraceId", "2"),
        Event::new(break_in, "T", "{}"),
        Event::new("t", break_in, "{}"),
    ];
    for event in bad {
        let answer = publish_one(&sink(&server), event.clone()).await;
        assert_eq!(kind(&answer), ("reject", Some(Code::BadEvent)), "{event:?}");
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn a_secret_is_in_no_cause_even_when_the_destination_echoes_it() {
    let echo = |seen: &Seen| {
        let (whole, other) = (seen.header("authorization"), seen.header("x-pass"));
        let token = whole.replace("Bearer ", "");
        with(400, "", &format!("got {whole}, {other}, <{token}> and {FIRST}"))
    };
    let server = Server::start(echo).await;
    let headers = vec![
        ("Authorization".to_owned(), Secret::new("Bearer canary-one")),
        ("x-pass".to_owned(), Secret::new("canary-two")),
    ];
    let secrets = vec![Secret::new(FIRST)];
    let url = server.url() + "&hook=canary-three";
    let given = Options { headers, secrets, ..options(url) };
    let http = Http::new(given.clone()).unwrap();
    let cause = cause(publish_one(&http, event()).await);
    let seen = server.seen().remove(0);
    assert_eq!(seen.header("authorization"), "Bearer canary-one");
    let shown = format!("{cause} {cause:?} {http:?} {given:?}");
    assert!(!shown.contains("canary") && !shown.contains("MfKQ9r8G"), "{shown}");
    assert!(cause.detail.contains("<***>"), "{cause}");
}

#[test]
fn options_that_cannot_work_are_refused_without_showing_a_secret() {
    let header = |name: &str, value: &str| Options {
        headers: vec![(name.to_owned(), Secret::new(value))],
        ..options("http://127.0.0.1/")
    };
    let cases = [
        options("ftp://canary.example/"),
        options("http://user:canary@example.org/"),
        options("http://canary@example.org/"),
        options("http://[canary"),
        options("canary"),
        header("Host", "canary"),
        header("ce-id", "canary"),
        header("webhook-id", "canary"),
        header("Content-Type", "canary"),
        header("bad name", "canary"),
        header("x-good", "canary\r\nx: y"),
        Options { secrets: vec![Secret::new("whsec_canary")], ..options("http://127.0.0.1/") },
        Options { secrets: vec![Secret::new("canary")], ..options("http://127.0.0.1/") },
        Options { timeout: Duration::ZERO, ..options("http://127.0.0.1/") },
    ];
    for case in cases {
        let cause = Http::new(case.clone()).unwrap_err();
        assert_eq!(cause.code, Code::ConfigInvalid, "{cause}");
        assert!(!cause.detail.contains("canary"), "{cause}");
    }
    let literal = Http::new(Options::new("http://127.0.0.1/", "orders")).unwrap_err();
    assert_eq!(literal.code, Code::AddressRefused);
}
