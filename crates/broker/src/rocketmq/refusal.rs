//! What an answer of a proxy, or its absence, means.
//!
//! It says "not taken in" only when that is certain. A proxy stands between: it may have lost its
//! broker, or that broker's answer.

use std::time::Duration;

use event::{Cause, Code, Refusal};
use tonic::Status;

use super::unkept::Lack;
use super::wire::v2;
use crate::width::Signal;

/// Everything is as it should be; for a publish, SEND_OK.
pub(super) const OK: i32 = 20000;
/// The topic has no route, at the moment or at all.
pub(super) const TOPIC_NOT_FOUND: i32 = 40402;
/// There is nothing to hand out.
pub(super) const MESSAGE_NOT_FOUND: i32 = 40401;
const TYPE_CONFLICT: i32 = 40014;

/// Why a topic has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It has worked: its broker is away, and its proxy has lost the memory of it.
    Lost,
    /// Nothing shows that a broker is there.
    Dark,
    /// It was never made: others have a route.
    Missing,
}

/// Judges a code that is not `OK`. `absence` is for a topic without a route.
pub(super) fn of(status: &v2::Status, topic: &str, absence: Absence) -> Refusal {
    let v2::Status { code, message } = status;
    let said = format!("{code}: {message}");
    let cause = |code| Cause::new(code, &said);
    let down = |code, why: &str| Refusal::Down(Cause::new(code, format_args!("{why}: {said}")));
    match *code {
        // A proxy has the same code for who is not known and for who may not write to this topic.
        40100 if message.contains("has no permission") => {
            Refusal::Retry(cause(Code::AuthRefused), None)
        }
        40100 | 40200 => denied(&said),
        40300 => Refusal::Retry(cause(Code::AuthRefused), None),
        TOPIC_NOT_FOUND | TYPE_CONFLICT if routeless(status) => match absence {
            Absence::Lost => {
                down(Code::SinkDown, &format!("the topic {topic} has lost its broker"))
            }
            Absence::Dark => down(Code::SinkDown, &dark(topic)),
            Absence::Missing => Refusal::Retry(missing(status, topic), None),
        },
        TOPIC_NOT_FOUND | TYPE_CONFLICT => Refusal::Retry(missing(status, topic), None),
        41300..=41399 | 43100..=43199 => Refusal::Reject(cause(Code::TooLarge)),
        40002 | 40004..=40007 | 40009 | 40012 | 40016 => Refusal::Reject(cause(Code::SinkRefused)),
        50001 if too_large(message) => Refusal::Reject(cause(Code::TooLarge)),
        50001 if unconnected(message) => down(Code::SinkDown, "the proxy cannot reach its broker"),
        50001 if full(message) => down(Code::BrokerFull, "nothing was taken"),
        50001 if alone(message) => down(Code::NotKept, "nothing was taken"),
        42900 => Refusal::Retry(cause(Code::SinkBusy), None),
        40800 | 50400 => unknown(Code::SinkTimeout, &said),
        50002 | 50401 | 50402 => unknown(Code::NotKept, &said),
        // It did not look at the event: a call that it does not know, for example.
        40000..=49999 | 50100..=50199 | 50500..=50599 => {
            Refusal::Retry(cause(Code::SinkBroken), None)
        }
        _ => unknown(Code::SinkBroken, &said),
    }
}

fn dark(topic: &str) -> String {
    format!(
        "the topic {topic} has no route, and nothing shows that a broker is there: look whether \
         one is, then make the topic"
    )
}

fn missing(status: &v2::Status, topic: &str) -> Cause {
    let v2::Status { code, message } = status;
    let todo = match routeless(status) {
        true => "is not there, and a proxy makes none",
        false => "was made for another type: set the sink's shape to it, or make it anew",
    };
    Cause::new(Code::TopicMissing, format_args!("the topic {topic} {todo}: {code}: {message}"))
}

/// Judges a call to `host` that brought no answer of the protocol.
pub(super) fn without(status: &Status, host: &str) -> Refusal {
    let said = format!("{host}: {}", chain(status));
    if connecting(status) {
        return Refusal::Down(Cause::new(Code::SinkDown, said));
    }
    match status.code() {
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => denied(&said),
        tonic::Code::Unimplemented => Refusal::Down(Cause::new(
            Code::SinkDown,
            format_args!("{said}: this is no RocketMQ 5 proxy"),
        )),
        tonic::Code::DeadlineExceeded => unknown(Code::SinkTimeout, &said),
        _ => unknown(Code::SinkBroken, &said),
    }
}

/// Judges silence: a paused proxy, or one whose queue is full, answers nothing at all.
pub(super) fn silent(host: &str, waited: Duration) -> Refusal {
    let waited = waited.as_millis();
    unknown(Code::SinkTimeout, &format!("{host}: no answer within {waited} ms"))
}

/// Says what a refusal tells about load.
pub(super) fn load(refusal: &Refusal) -> Signal {
    match refusal {
        Refusal::Retry(cause, _) if cause.code == Code::SinkBusy => Signal::Overloaded,
        Refusal::Unknown(cause) if cause.code == Code::SinkTimeout => Signal::Overloaded,
        Refusal::Unknown(_) => Signal::Failed,
        _ => Signal::Silent,
    }
}

/// Tells whether a topic has no route, as a publish and a query say it.
pub(super) fn routeless(status: &v2::Status) -> bool {
    status.code == TOPIC_NOT_FOUND
        || status.code == TYPE_CONFLICT && status.message.contains("UNSPECIFIED")
}

/// Says what an event lacks that a broker has all the same.
pub(super) fn lack(status: &v2::Status) -> Option<Lack> {
    match status.code {
        50401 => Some(Lack::Flush),
        50002 | 50402 => Some(Lack::Copy),
        _ => None,
    }
}

/// Tells whether one broker took nothing, and the next that the proxy picks may take it.
pub(super) fn is_of_one_broker(v2::Status { code, message }: &v2::Status) -> bool {
    *code == 50001 && (unconnected(message) || full(message) || alone(message))
}

/// Tells whether a refused batch may be taken one by one: it was the fault of one of them, or of
/// all together.
pub(super) fn divisible(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Reject(_))
}

fn denied(said: &str) -> Refusal {
    let todo = "look at access_key and secret_key, at the user and its rights";
    Refusal::Down(Cause::new(Code::AuthRefused, format_args!("not let in: {said}: {todo}")))
}

fn unknown(code: Code, said: &str) -> Refusal {
    Refusal::Unknown(Cause::new(code, format_args!("it may have arrived: {said}")))
}

fn too_large(message: &str) -> bool {
    message.contains("size exceed")
}

/// The broker's words when its disk is full, or a file cannot be made.
fn full(message: &str) -> bool {
    message.contains("service not available now") || message.contains("create mapped file failed")
}

/// The broker's words when too few slaves are there.
fn alone(message: &str) -> bool {
    message.contains("in-sync replicas not enough")
}

/// The proxy's own words when it has no connection to the broker: nothing went out.
fn unconnected(message: &str) -> bool {
    message.contains("connect to") && message.contains("failed")
}

fn connecting(status: &Status) -> bool {
    let mut next = std::error::Error::source(status);
    while let Some(error) = next {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        next = error.source();
    }
    false
}

fn chain(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut next = std::error::Error::source(status);
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text += ": ";
            text += &more;
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(code: i32, message: &str) -> Refusal {
        judge_absent(code, message, Absence::Missing)
    }

    fn judge_absent(code: i32, message: &str, absence: Absence) -> Refusal {
        of(&v2::Status { code, message: message.to_owned() }, "t", absence)
    }

    fn kind(refusal: &Refusal) -> &'static str {
        match refusal {
            Refusal::Down(_) => "down",
            Refusal::Retry(..) => "retry",
            Refusal::Reject(_) => "reject",
            Refusal::Unknown(_) => "unknown",
            Refusal::Held => "held",
        }
    }

    #[test]
    fn each_code_has_its_reaction() {
        let cases: [(&str, &[i32]); 4] = [
            ("down", &[40100, 40200]),
            (
                "retry",
                &[40000, 40001, 40014, 40015, 40017, 40300, 40400, 40402, 42800, 42900, 50100],
            ),
            ("reject", &[40002, 40004, 40005, 40006, 40007, 40009, 40012, 41301, 41302, 43101]),
            ("unknown", &[0, 30000, 40800, 50000, 50001, 50002, 50400, 50401, 50402, 60000]),
        ];
        for (expected, codes) in cases {
            for &code in codes {
                assert_eq!(kind(&judge(code, "")), expected, "{code}");
            }
        }
    }

    #[test]
    fn a_topic_is_asked_for_again_only_if_it_is_missing_and_otherwise_its_broker_is_away() {
        let unspecified = "message type conflicts, expected type is UNSPECIFIED";
        for (code, message) in [(40402, "no route"), (40014, unspecified)] {
            for (absence, expected) in
                [(Absence::Lost, "down"), (Absence::Dark, "down"), (Absence::Missing, "retry")]
            {
                let judged = judge_absent(code, message, absence);
                assert_eq!(kind(&judged), expected, "{code} {absence:?}");
            }
        }
        // A shape that does not fit is a mistake of the config, not of the event.
        let known = "the topic's expected type is NORMAL but got FIFO";
        assert_eq!(kind(&judge_absent(40014, known, Absence::Lost)), "retry");
    }

    #[test]
    fn an_inner_error_is_read_by_its_words_and_unknown_without_them() {
        let down = judge(50001, "connect to 127.0.0.1:10911 failed");
        assert_eq!(kind(&down), "down");
        let large = judge(50001, "message body size exceeded");
        assert_eq!(kind(&large), "reject");
        let full = judge(50001, "service not available now. the broker's disk is full");
        assert!(matches!(full, Refusal::Down(cause) if cause.code == Code::BrokerFull));
        let alone = judge(50001, "in-sync replicas not enough");
        assert!(matches!(alone, Refusal::Down(cause) if cause.code == Code::NotKept));
        assert_eq!(kind(&judge(50001, "NullPointerException")), "unknown");
    }

    #[test]
    fn who_has_no_right_to_one_topic_keeps_no_other_from_its_destination() {
        let rightless = "User:me has no permission to access Topic:t from 127.0.0.1, no matched";
        for (said, expected) in [(rightless, "retry"), ("User:me is not found.", "down")] {
            let judged = judge(40100, said);
            assert_eq!(kind(&judged), expected, "{judged:?}");
            assert_eq!(judged.cause().map(|cause| cause.code), Some(Code::AuthRefused));
        }
    }

    #[test]
    fn load_is_told_by_a_busy_broker_and_by_silence() {
        assert_eq!(load(&judge(42900, "")), Signal::Overloaded);
        assert_eq!(load(&silent("a:1", Duration::from_secs(1))), Signal::Overloaded);
        assert_eq!(load(&judge(50001, "")), Signal::Failed);
        assert_eq!(load(&judge(40002, "")), Signal::Silent);
    }

    #[test]
    fn a_call_that_broke_off_may_have_arrived_and_one_that_met_no_proxy_has_not() {
        assert_eq!(kind(&without(&Status::unavailable("gone away"), "a:1")), "unknown");
        assert_eq!(kind(&without(&Status::cancelled(""), "a:1")), "unknown");
        assert_eq!(kind(&without(&Status::unimplemented(""), "a:1")), "down");
        let connect = tonic::ConnectError("refused".into());
        let status = Status::from_error(Box::new(connect));
        assert_eq!(kind(&without(&status, "a:1")), "down", "{status:?}");
    }
}
