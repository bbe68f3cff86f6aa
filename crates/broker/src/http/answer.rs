//! From an HTTP response, or its absence, to an answer.
//!
//! It says "not taken in" only when that is certain: whatever may have been read by the destination
//! is unknown, also if something failed there afterwards. It says "never" only of the event itself:
//! a wrong key or a wrong place would be the end of every event. Bodies are read in part, masked,
//! and shown in part; of the place that a redirect names, only the host is.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use event::{Answer, Cause, Code, Receipt, Refusal, Secret};
use hyper::body::{Body, Incoming};
use hyper::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::client::Failure;
use crate::width::Signal;

/// How much of a body is read, so that the connection can be used again.
const BODY: usize = 64 * 1024;
/// How long a body is waited for: the status has already said what counts.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much of a body is shown to a person.
const SHOWN: usize = 300;

/// Reads a response. The status alone decides; 2xx only is a receipt. Also returns whether it was
/// read to its end.
pub(super) async fn read(
    response: &mut Response<Incoming>,
    until: Instant,
    masks: &[Secret],
) -> (Answer, bool) {
    let (body, ended) = match response.body().is_end_stream() {
        true => (Vec::new(), true),
        false => body(response.body_mut(), until).await,
    };
    let (status, headers) = (response.status(), response.headers());
    if status.is_success() {
        return (Ok(Receipt { broker_id: broker_id(headers) }), ended);
    }
    let said = match status.is_redirection() {
        // Its body repeats the place, with whatever is behind the host.
        true => elsewhere(headers, masks),
        false => excerpt(&body, masks),
    };
    let detail = match said.is_empty() {
        true => status.to_string(),
        false => format!("{status}: {said}"),
    };
    let asked = retry_after(headers, SystemTime::now());
    (Err(refusal(status, asked, &detail)), ended)
}

fn refusal(status: StatusCode, asked: Option<Duration>, detail: &str) -> Refusal {
    let perhaps =
        |code| Refusal::Unknown(Cause::new(code, format_args!("it may have arrived: {detail}")));
    match (status.as_u16(), asked) {
        (401 | 403, _) => Refusal::Down(Cause::new(Code::AuthRefused, detail)),
        // Whoever answers so speaks of the way there, and would of any event.
        (300..=399 | 407 | 421, _) => Refusal::Down(Cause::new(Code::SinkRefused, detail)),
        (404 | 405 | 410, _) => Refusal::Retry(Cause::new(Code::TopicMissing, detail), asked),
        (425 | 429, _) => Refusal::Retry(Cause::new(Code::SinkBusy, detail), asked),
        // Whoever says when to come again has not begun.
        (503, Some(_)) => Refusal::Retry(Cause::new(Code::SinkBusy, detail), asked),
        (408 | 503, _) => perhaps(Code::SinkBusy),
        (500..=599, _) => perhaps(Code::SinkBroken),
        _ => Refusal::Reject(Cause::new(Code::SinkRefused, detail)),
    }
}

/// Says what a status tells about load. 502 and 504 are a gateway's word that the destination
/// behind it cannot keep up; a plain 500 may be the event's fault.
pub(super) fn load(status: StatusCode, latency: Duration) -> Signal {
    match status.as_u16() {
        200..=299 => Signal::Good(latency),
        408 | 425 | 429 | 502..=504 => Signal::Overloaded,
        500..=599 => Signal::Failed,
        _ => Signal::Silent,
    }
}

/// Says what no response tells about load. A destination out of reach rests its lane instead.
pub(super) fn load_of_silence(refusal: &Refusal) -> Signal {
    match refusal {
        Refusal::Unknown(cause) if cause.code == Code::SinkTimeout => Signal::Overloaded,
        Refusal::Unknown(_) => Signal::Failed,
        _ => Signal::Silent,
    }
}

/// Judges a request to `host` that got no response.
pub(super) fn failed(failure: Failure, host: &str) -> Refusal {
    let perhaps = |code, why: &str| {
        let detail = format_args!("it may have arrived: {host}: {why}");
        Refusal::Unknown(Cause::new(code, detail))
    };
    let down = |code, why: &str| Refusal::Down(Cause::new(code, format_args!("{host}: {why}")));
    match failure {
        Failure::Forbidden(forbidden) => down(Code::AddressRefused, &forbidden.to_string()),
        Failure::Down(why) => down(Code::SinkDown, &why),
        Failure::Broken(error) => perhaps(Code::SinkBroken, &chain(&error)),
        Failure::Late => perhaps(Code::SinkTimeout, "no answer in time"),
    }
}

fn broker_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id")?.to_str().ok()?;
    (1..=255).contains(&id.len()).then(|| id.to_owned())
}

/// Says where a redirect leads: no further than the host, because a path or a query may hold a
/// secret. One that names no host stays at its own.
fn elsewhere(headers: &HeaderMap, masks: &[Secret]) -> String {
    const SAME: &str = "http://same.invalid";
    let own = Url::parse(SAME).expect("an address is an address");
    let Some(place) = headers.get(LOCATION) else { return String::new() };
    let place = place.to_str().ok().and_then(|place| own.join(place).ok());
    let host = match place.as_ref().and_then(Url::host_str) {
        Some(host) if Some(host) != own.host_str() => excerpt(host.as_bytes(), masks),
        Some(_) => "the same host".to_owned(),
        None => "no host".to_owned(),
    };
    format!("it leads to {host}, and redirects are not followed")
}

/// Reads `Retry-After`: seconds, or a date. A date is taken against the destination's own clock
/// where it tells it, because ours may differ.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(until.duration_since(now).unwrap_or_default())
}

/// Reads a body as far as is worth it. Also returns whether that was to its end.
async fn body(body: &mut Incoming, until: Instant) -> (Vec<u8>, bool) {
    let until = until.min(Instant::now() + PATIENCE);
    let mut read = Vec::new();
    while read.len() < BODY {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        match timeout_at(until, frame).await {
            Ok(Some(Ok(frame))) => {
                let chunk = frame.into_data().unwrap_or_default();
                read.extend_from_slice(&chunk[..chunk.len().min(BODY - read.len())]);
            }
            Ok(None) => return (read, true),
            Ok(Some(Err(_))) | Err(_) => break,
        }
    }
    (read, false)
}

/// Returns the start of a body on one line, without our own secrets: a destination may echo what it
/// was given.
fn excerpt(body: &[u8], masks: &[Secret]) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for secret in masks {
        text = text.replace(secret.reveal(), "***");
    }
    if text.trim_start().starts_with(['{', '[', '"']) {
        text = unbroken(&text);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

/// Writes the line breaks and tabs inside JSON strings as blanks. Left as `\n`, they would be
/// escaped once more wherever the cause is shown as JSON.
fn unbroken(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut letters = json.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n' | 'r' | 't') => out.push(' '),
            escaped => out.extend([Some(letter), escaped].into_iter().flatten()),
        }
    }
    out
}

/// Returns what an error says, and what all that caused it say.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += ": ";
        text += &error.to_string();
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_every_form_that_http_knows() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let cases = [
            ("0", Some(0)),
            (" 30 ", Some(30)),
            ("18446744073709551615", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("99999999999999999999", None),
            ("", None),
        ];
        for (text, seconds) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn a_gateways_errors_speak_of_overload_like_a_busy_destination_and_silence() {
        let latency = Duration::from_millis(7);
        let cases: [(Signal, &[u16]); 4] = [
            (Signal::Good(latency), &[200, 202, 204]),
            (Signal::Overloaded, &[408, 425, 429, 502, 503, 504]),
            (Signal::Failed, &[500, 501, 507, 599]),
            (Signal::Silent, &[301, 400, 404, 422]),
        ];
        for (expected, statuses) in cases {
            for &number in statuses {
                let status = StatusCode::from_u16(number).unwrap();
                assert_eq!(load(status, latency), expected, "{number}");
            }
        }
        let cause = |code| Cause::new(code, "as the test says");
        let unknown = |code| load_of_silence(&Refusal::Unknown(cause(code)));
        assert_eq!(unknown(Code::SinkTimeout), Signal::Overloaded);
        assert_eq!(unknown(Code::SinkBroken), Signal::Failed);
        let down = Refusal::Down(cause(Code::SinkDown));
        assert_eq!(load_of_silence(&down), Signal::Silent);
    }

    #[test]
    fn of_the_place_that_a_redirect_names_nothing_but_the_host_is_shown() {
        let masks = [Secret::new("canary")];
        let cases = [
            (
                "https://u:canary@login.example.com:8443/canary?state=canary#canary",
                "login.example.com",
            ),
            ("//other.example.com/canary", "other.example.com"),
            ("/sign-in?to=canary", "the same host"),
            ("canary", "the same host"),
            ("https://canary.example.com/", "***.example.com"),
            ("mailto:canary@example.com", "no host"),
            ("http://[canary", "no host"),
        ];
        for (place, host) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, place.parse().unwrap());
            let expected = format!("it leads to {host}, and redirects are not followed");
            assert_eq!(elsewhere(&headers, &masks), expected, "{place}");
        }
        assert_eq!(elsewhere(&HeaderMap::new(), &masks), "");
    }

    #[test]
    fn a_body_is_shown_on_one_line_and_a_path_in_it_is_left_alone() {
        let cases = [
            ("one\r\n\ttwo\n", "one two"),
            (
                r#"{"error":"one\ntwo\r\n","file":"C:\\new"}"#,
                r#"{"error":"one two ","file":"C:\\new"}"#,
            ),
            (r"C:\new is not there", r"C:\new is not there"),
            (" \n", ""),
        ];
        for (body, shown) in cases {
            assert_eq!(excerpt(body.as_bytes(), &[]), shown);
        }
    }

    #[test]
    fn a_date_is_taken_against_the_destinations_clock() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "Sun, 06 Nov 1994 08:49:47 GMT".parse().unwrap());
        headers.insert(DATE, "Sun, 06 Nov 1994 08:49:42 GMT".parse().unwrap());
        assert_eq!(retry_after(&headers, SystemTime::now()), Some(Duration::from_secs(5)));
    }
}
