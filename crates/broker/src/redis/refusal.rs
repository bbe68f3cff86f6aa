//! What the errors of Redis mean for an event, code by code.
//!
//! An error that the server answers with means that it took nothing. Without one nobody knows.

use event::{Cause, Code, Refusal};
use redis::RedisError;

use crate::width::Signal;

/// What to do about each error code, and what it says to a person.
const TABLE: &[(&str, Kind, Code, &str)] = &[
    ("OOM", Kind::Down, Code::BrokerFull, "maxmemory is reached: raise it, or trim what was read"),
    ("MISCONF", Kind::Down, Code::BrokerFull, "it cannot write to its disk: look at its log"),
    ("READONLY", Kind::Down, Code::SinkDown, "this is a replica: name the primary in the url"),
    ("LOADING", Kind::Down, Code::SinkDown, "it reads its data in, and will soon be there"),
    ("MASTERDOWN", Kind::Down, Code::SinkDown, "its primary is out of reach"),
    ("CLUSTERDOWN", Kind::Down, Code::SinkDown, "the cluster is down"),
    ("NOAUTH", Kind::Down, Code::AuthRefused, "it wants a password, which belongs into the url"),
    ("WRONGPASS", Kind::Down, Code::AuthRefused, "the user or the password is wrong"),
    ("NOREPLICAS", Kind::Down, Code::NotKept, "fewer replicas than min-replicas-to-write"),
    ("NOPERM", Kind::Retry, Code::AuthRefused, "grant this user XADD on this stream"),
    ("BUSY", Kind::Retry, Code::SinkBusy, "a script runs for long"),
    ("TRYAGAIN", Kind::Retry, Code::SinkBusy, "the cluster moves this stream"),
    ("MOVED", Kind::Retry, Code::SinkRefused, CLUSTER),
    ("ASK", Kind::Retry, Code::SinkRefused, CLUSTER),
    ("CROSSSLOT", Kind::Retry, Code::SinkRefused, CLUSTER),
    ("WRONGTYPE", Kind::Retry, Code::SinkRefused, "a key of this name is there, and is no stream"),
];

const CLUSTER: &str = "another node of the cluster has this stream: name that node in the url";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Down,
    Retry,
}

/// Judges a command that has no good answer. `stream` is what it was about.
pub(super) fn judge(error: &RedisError, stream: &str, host: &str) -> Refusal {
    if error.is_timeout() {
        return late(host);
    }
    match error.code() {
        Some(code) => answered(code, error.detail().unwrap_or_default(), stream),
        None => {
            let detail = format!("it may have arrived: {host}: {}", plain(error));
            Refusal::Unknown(Cause::new(Code::SinkBroken, detail))
        }
    }
}

/// Says that there was no answer in time.
pub(super) fn late(host: &str) -> Refusal {
    let detail = format!("it may have arrived: {host}: no answer in time");
    Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))
}

fn answered(code: &str, detail: &str, stream: &str) -> Refusal {
    let known = TABLE.iter().find(|(known, ..)| *known == code);
    let Some((_, kind, name, words)) = known else {
        let detail = format!("{stream}: {code} {detail}");
        return Refusal::Retry(Cause::new(Code::SinkBroken, detail), None);
    };
    let cause = Cause::new(*name, format_args!("{stream}: {code} {detail}: {words}"));
    match kind {
        Kind::Down => Refusal::Down(cause),
        Kind::Retry => Refusal::Retry(cause, None),
    }
}

/// Returns what an error says, without addresses.
pub(super) fn plain(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) => format!("{:?}: {detail}", error.kind()),
        None => error.to_string(),
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

    #[test]
    fn each_error_code_has_its_reaction() {
        let cases = [
            ("OOM", "down", Code::BrokerFull),
            ("MISCONF", "down", Code::BrokerFull),
            ("READONLY", "down", Code::SinkDown),
            ("LOADING", "down", Code::SinkDown),
            ("CLUSTERDOWN", "down", Code::SinkDown),
            ("NOAUTH", "down", Code::AuthRefused),
            ("WRONGPASS", "down", Code::AuthRefused),
            ("NOREPLICAS", "down", Code::NotKept),
            ("NOPERM", "retry", Code::AuthRefused),
            ("BUSY", "retry", Code::SinkBusy),
            ("MOVED", "retry", Code::SinkRefused),
            ("WRONGTYPE", "retry", Code::SinkRefused),
            ("ERR", "retry", Code::SinkBroken),
            ("OFTOMORROW", "retry", Code::SinkBroken),
        ];
        for (code, kind, name) in cases {
            let judged = match answered(code, "as the test says", "orders") {
                Refusal::Down(cause) => ("down", cause),
                Refusal::Retry(cause, None) => ("retry", cause),
                other => panic!("{other:?}"),
            };
            assert_eq!((judged.0, judged.1.code), (kind, name), "{code}");
            assert!(judged.1.detail.contains("orders"), "{}", judged.1);
        }
    }

    #[test]
    fn without_an_answer_nobody_knows() {
        use std::io::{Error, ErrorKind};
        for kind in [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::TimedOut] {
            let refusal = judge(&RedisError::from(Error::from(kind)), "orders", "a:6379");
            let Refusal::Unknown(cause) = refusal else { panic!("{refusal:?}") };
            assert!(cause.detail.starts_with("it may have arrived"), "{cause}");
            let expected = [Code::SinkBroken, Code::SinkTimeout];
            assert_eq!(cause.code, expected[usize::from(kind == ErrorKind::TimedOut)]);
        }
    }
}
