//! What the answers of JetStream mean for an event, error code by error code.
//!
//! Only what the event itself can never pass (its size) is a reject. A stream that is missing,
//! sealed or wrongly made can be mended while the event backs off. One that is away is down: if
//! nothing else is taken either, the lane rests; if another stream takes something, the event backs
//! off.

use std::error::Error;

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use event::{Cause, Code, Refusal};

use super::absence::{Absence, OFF};
use super::streams;
use crate::width::Signal;

/// Which refusal an error code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Down,
    Retry,
    Reject,
    Unknown,
}

/// Error codes (`err_code`) that say more than their status does.
const TABLE: &[(u64, Kind, Code)] = &[
    // Limits of the server or the account: no stream of it takes anything.
    (10002, Kind::Down, Code::BrokerFull),
    (10023, Kind::Down, Code::BrokerFull),
    (10028, Kind::Down, Code::BrokerFull),
    (10047, Kind::Down, Code::BrokerFull),
    // JetStream is off, for the server or for the account.
    (OFF[0], Kind::Down, Code::SinkDown),
    (OFF[1], Kind::Down, Code::SinkDown),
    (OFF[2], Kind::Down, Code::SinkDown),
    // Nobody leads now.
    (10007, Kind::Retry, Code::SinkBusy),
    (10008, Kind::Retry, Code::SinkBusy),
    (10009, Kind::Retry, Code::SinkBusy),
    (10118, Kind::Retry, Code::SinkBusy),
    (10194, Kind::Retry, Code::SinkBusy),
    (10167, Kind::Retry, Code::SinkBusy),
    // The same id is under way, perhaps from a relay that has died: it may yet be stored.
    (10158, Kind::Unknown, Code::SinkBusy),
    (10201, Kind::Unknown, Code::SinkBusy),
    // It is larger than the stream, or JetStream's headers, allow.
    (10054, Kind::Reject, Code::TooLarge),
    (10097, Kind::Reject, Code::TooLarge),
    // Another stream than the one that must take it, or none.
    (10059, Kind::Retry, Code::TopicMissing),
    (10060, Kind::Retry, Code::TopicMissing),
];

/// What the store of a stream says when a limit is reached (10077 and no other word for it).
const LIMITS: [&str; 3] = [
    "maximum messages exceeded",
    "maximum bytes exceeded",
    "maximum messages per subject exceeded",
];

/// Judges a publish that was not written at all.
pub(super) fn not_written(error: &PublishError, subject: &str, host: &str) -> Refusal {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => {
            let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            let detail = format!(
                "{subject}: {said}: raise max_payload of the server, or store it elsewhere and put \
                 a reference"
            );
            Refusal::Reject(Cause::new(Code::TooLarge, detail))
        }
        _ => Refusal::Down(Cause::new(Code::SinkDown, format_args!("{host}: {error}"))),
    }
}

/// Judges a publish that was written and has no receipt.
pub(super) fn no_receipt(error: &PublishError, subject: &str, host: &str) -> Refusal {
    let unknown = |code, why: &dyn std::fmt::Display| {
        Refusal::Unknown(Cause::new(code, format_args!("it may have arrived: {host}: {why}")))
    };
    match error.kind() {
        PublishErrorKind::TimedOut => late(host),
        PublishErrorKind::BrokenPipe => unknown(Code::SinkBroken, &"the connection broke"),
        _ => match error.source().and_then(|source| source.downcast_ref::<jetstream::Error>()) {
            Some(said) => judge(said.code(), said.error_code().0, &said.to_string(), subject),
            None => unknown(Code::SinkBroken, &error),
        },
    }
}

/// Judges a publish that nobody heard.
pub(super) fn nobody(absence: &Absence, subject: &str, host: &str) -> Refusal {
    let of_one = |detail| Refusal::Retry(Cause::new(Code::SinkDown, detail), None);
    match absence {
        Absence::Away(stream) => of_one(format!("{subject}: {}", streams::gone(stream))),
        Absence::Dark(why) => of_one(format!(
            "{subject}: no stream answers, and {host} does not tell whether one takes it: {why}"
        )),
        Absence::Lost => of_one(format!(
            "{subject}: the stream that took it does not answer; whether it is still there, this \
             user may not ask ($JS.API.STREAM.NAMES)"
        )),
        Absence::Off => {
            let detail = format!("{host}: JetStream is away, or not enabled for this account");
            Refusal::Down(Cause::new(Code::SinkDown, detail))
        }
        Absence::Missing => {
            let detail = format!("no stream takes the subject {subject}: make one that does");
            Refusal::Retry(Cause::new(Code::TopicMissing, detail), None)
        }
    }
}

/// Takes a stream that is away for the whole destination.
pub(super) fn of_whole(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Retry(cause, None) if cause.code == Code::SinkDown => Refusal::Down(cause),
        refusal => refusal,
    }
}

/// Says that there was no answer in time.
pub(super) fn late(host: &str) -> Refusal {
    let why = "no answer in time; a stream without a leader does not answer";
    let detail = format!("it may have arrived: {host}: {why}");
    Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))
}

/// Says that this user may not publish there.
pub(super) fn denied(subject: &str) -> Refusal {
    let detail = format!("this user may not publish to {subject}: grant it in the server's config");
    Refusal::Retry(Cause::new(Code::AuthRefused, detail), None)
}

fn judge(status: usize, code: u64, said: &str, subject: &str) -> Refusal {
    let (kind, name) = match TABLE.iter().find(|(known, ..)| *known == code) {
        Some((_, kind, name)) => (*kind, *name),
        None if code == 10077 => store_failed(said),
        None => match status {
            429 | 503 => (Kind::Retry, Code::SinkBusy),
            500..=599 => (Kind::Retry, Code::SinkBroken),
            _ => (Kind::Retry, Code::SinkRefused),
        },
    };
    match kind {
        Kind::Down => Refusal::Down(Cause::new(name, said)),
        Kind::Retry => Refusal::Retry(Cause::new(name, format_args!("{subject}: {said}")), None),
        Kind::Reject => Refusal::Reject(Cause::new(name, format_args!("{subject}: {said}"))),
        Kind::Unknown => {
            let detail = format!("it may have arrived: {subject}: {said}");
            Refusal::Unknown(Cause::new(name, detail))
        }
    }
}

/// A store that failed for any other reason than a limit may have written what it then denied.
fn store_failed(said: &str) -> (Kind, Code) {
    if LIMITS.iter().any(|limit| said.contains(limit)) {
        (Kind::Retry, Code::BrokerFull)
    } else if said.contains("too large") {
        (Kind::Reject, Code::TooLarge)
    } else {
        (Kind::Unknown, Code::NotKept)
    }
}

/// Says what a refusal tells about load.
pub(super) fn load(refusal: &Refusal) -> Signal {
    match refusal {
        Refusal::Retry(cause, _) if cause.code == Code::SinkBusy => Signal::Overloaded,
        Refusal::Unknown(cause) if cause.code == Code::SinkTimeout => Signal::Overloaded,
        Refusal::Retry(cause, _) if cause.code == Code::SinkBroken => Signal::Failed,
        Refusal::Unknown(_) => Signal::Failed,
        _ => Signal::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: usize, code: u64, said: &str) -> (&'static str, Code) {
        match judge(status, code, said, "order.paid") {
            Refusal::Down(cause) => ("down", cause.code),
            Refusal::Retry(cause, None) => ("retry", cause.code),
            Refusal::Reject(cause) => ("reject", cause.code),
            Refusal::Unknown(cause) => ("unknown", cause.code),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_error_code_has_its_reaction() {
        let cases = [
            (503, 10023, "insufficient resources", ("down", Code::BrokerFull)),
            (500, 10047, "insufficient storage resources", ("down", Code::BrokerFull)),
            (400, 10002, "resource limits exceeded for account", ("down", Code::BrokerFull)),
            (503, 10039, "JetStream not enabled for account", ("down", Code::SinkDown)),
            (503, 10008, "temporarily unavailable", ("retry", Code::SinkBusy)),
            (500, 10009, "can not handle request", ("retry", Code::SinkBusy)),
            (429, 10167, "too many requests", ("retry", Code::SinkBusy)),
            (409, 10158, "duplicate message id is in process", ("unknown", Code::SinkBusy)),
            (400, 10054, "message size exceeds maximum", ("reject", Code::TooLarge)),
            (400, 10097, "header size exceeds maximum", ("reject", Code::TooLarge)),
            (400, 10060, "expected stream does not match", ("retry", Code::TopicMissing)),
            (503, 10077, "maximum bytes exceeded (code 503)", ("retry", Code::BrokerFull)),
            (503, 10077, "maximum messages exceeded", ("retry", Code::BrokerFull)),
            (503, 10077, "message to large, too large", ("reject", Code::TooLarge)),
            (503, 10077, "write: input/output error", ("unknown", Code::NotKept)),
            (400, 10109, "invalid operation on sealed stream", ("retry", Code::SinkRefused)),
            (400, 10169, "message counter increment is missing", ("retry", Code::SinkRefused)),
            (503, 1, "of tomorrow", ("retry", Code::SinkBusy)),
            (500, 1, "of tomorrow", ("retry", Code::SinkBroken)),
        ];
        for (status, code, said, expected) in cases {
            assert_eq!(kind(status, code, said), expected, "{code} {said}");
        }
    }

    #[test]
    fn a_stream_that_is_away_spends_no_attempt_unless_another_takes_something() {
        let away = |absence| nobody(&absence, "order.paid", "a:4222");
        let text = || "so".to_owned();
        for absence in [Absence::Away(text()), Absence::Dark(text()), Absence::Lost] {
            let one = away(absence);
            let Refusal::Retry(cause, None) = &one else { panic!("{one:?}") };
            assert!(cause.code == Code::SinkDown && cause.detail.contains("order.paid"), "{cause}");
            assert_eq!(of_whole(one.clone()), Refusal::Down(cause.clone()));
        }
        assert!(matches!(away(Absence::Off), Refusal::Down(_)));
        let missing = away(Absence::Missing);
        let Refusal::Retry(cause, None) = &missing else { panic!("{missing:?}") };
        assert_eq!(cause.code, Code::TopicMissing);
        assert_eq!(of_whole(missing.clone()), missing);
    }

    #[test]
    fn a_cause_names_the_subject_and_an_unknown_says_so() {
        let Refusal::Retry(cause, _) = judge(400, 10060, "no", "order.paid") else { panic!() };
        assert!(cause.detail.contains("order.paid"), "{cause}");
        let Refusal::Unknown(cause) = late("a:4222") else { panic!() };
        assert!(cause.detail.starts_with("it may have arrived"), "{cause}");
    }
}
