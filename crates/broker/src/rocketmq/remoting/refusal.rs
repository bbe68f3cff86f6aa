//! What a code of a broker means, and what its silence means.
//!
//! It says "not taken in" only when that is certain.

use event::{Cause, Code, Refusal};

use super::super::unkept::Lack;
use super::link::Answer;

/// For an event: stored, flushed and copied as the settings say.
pub(super) const OK: i64 = 0;
/// It is on this broker, and was not flushed in time.
pub(super) const SLOW_DISK: i64 = 10;
/// The copy on another broker was not made. It is on this one.
pub(super) const NO_SLAVE: i64 = 11;
/// It was not made in time, which is all that a broker of 5.x says of a slave that is away.
pub(super) const SLOW_SLAVE: i64 = 12;
/// The topic has no route, or its broker does not have it.
pub(super) const NO_TOPIC: i64 = 17;

/// What a broker says of one whom it does not know. That of 4.x says the last before it looks at
/// anything else, whatever it dislikes.
const STRANGER: [&str; 7] = [
    "ignature",
    "AccessKey",
    "accessKey",
    "username",
    "is not found",
    "is disabled",
    "AclException",
];

/// Judges a code that is not `OK`, of a request with so many bytes.
pub(super) fn of(answer: &Answer, topic: &str, bytes: usize) -> Refusal {
    let Answer { code, remark } = answer;
    let said = said(answer);
    let words = without(remark, topic);
    let has = |any: &[&str]| any.iter().any(|it| words.contains(it));
    let cause = |code| Cause::new(code, &said);
    let down = |code, why: &str| Refusal::Down(Cause::new(code, format_args!("{why}: {said}")));
    match *code {
        SLOW_DISK | NO_SLAVE | SLOW_SLAVE => unknown(Code::NotKept, &said),
        // Who is known, and may not write to this topic. 4.x has one code for all errors.
        1 | 16 if has(&["has no permission", "No default permission"]) => {
            Refusal::Retry(cause(Code::AuthRefused), None)
        }
        1 | 16 if has(&STRANGER) => denied(&said),
        16 => Refusal::Retry(cause(Code::AuthRefused), None),
        2 | 215 => Refusal::Retry(cause(Code::SinkBusy), None),
        1 if has(&["broker busy", "flow control"]) => Refusal::Retry(cause(Code::SinkBusy), None),
        1 if has(&["in-sync replicas not enough"]) => down(Code::NotKept, "nothing was taken"),
        14 => down(Code::BrokerFull, "nothing was taken"),
        1 if has(&["create mapped file failed"]) => down(Code::BrokerFull, "nothing was taken"),
        1 if has(&["is forbidden", "reserved words"]) => Refusal::Reject(cause(Code::SinkRefused)),
        // The route was of yesterday, or a setting is missing; the event was not looked at.
        1 if has(&["queueId", "timerWheelEnable"]) => Refusal::Retry(cause(Code::SinkBroken), None),
        // For several together it is an exception of the broker's, before anything is stored.
        1 | 13 if has(&["length limit", "size exceeded", "length too long"]) => {
            let detail = format!("the request has {bytes} bytes: {said}");
            Refusal::Reject(Cause::new(Code::TooLarge, detail))
        }
        13 => Refusal::Reject(cause(Code::SinkRefused)),
        NO_TOPIC => Refusal::Retry(missing(topic, &said), None),
        501 => Refusal::Retry(cause(Code::SinkBroken), None),
        3 => down(Code::SinkDown, "this is no broker of RocketMQ"),
        1500 => down(Code::SinkDown, "the broker is leaving"),
        _ => unknown(Code::SinkBroken, &said),
    }
}

/// Says what an event lacks that a broker has all the same.
pub(super) fn lack(answer: &Answer) -> Option<Lack> {
    match answer.code {
        SLOW_DISK => Some(Lack::Flush),
        NO_SLAVE | SLOW_SLAVE => Some(Lack::Copy),
        _ => None,
    }
}

/// Says a code with the broker's own words.
pub(super) fn said(Answer { code, remark }: &Answer) -> String {
    format!("{code}: {}", if remark.is_empty() { name(*code) } else { remark })
}

/// Names what a broker leaves without words.
fn name(code: i64) -> &'static str {
    match code {
        SLOW_DISK => "FLUSH_DISK_TIMEOUT",
        NO_SLAVE => "SLAVE_NOT_AVAILABLE",
        SLOW_SLAVE => "FLUSH_SLAVE_TIMEOUT",
        _ => "",
    }
}

/// Says that a topic was never made.
pub(super) fn missing(topic: &str, said: &str) -> Cause {
    let detail = format!("the topic {topic} is not there: make it first: {said}");
    Cause::new(Code::TopicMissing, detail)
}

/// Says that it may have arrived.
pub(super) fn unknown(code: Code, said: &str) -> Refusal {
    Refusal::Unknown(Cause::new(code, format_args!("it may have arrived: {said}")))
}

/// Says that nothing was offered.
pub(super) fn down(said: impl std::fmt::Display) -> Refusal {
    Refusal::Down(Cause::new(Code::SinkDown, said))
}

fn denied(said: &str) -> Refusal {
    let todo = "look at access_key and secret_key, at the user and its rights";
    Refusal::Down(Cause::new(Code::AuthRefused, format_args!("not let in: {said}: {todo}")))
}

/// Returns the words of a remark without the name of the topic, which may be any word.
fn without(remark: &str, topic: &str) -> String {
    let parts = |c: char| !c.is_ascii_alphanumeric() && !"_-%|".contains(c);
    let words = remark.split(parts).filter(|word| !word.is_empty() && *word != topic);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(code: i64, remark: &str) -> (&'static str, Code) {
        match of(&Answer { code, remark: remark.to_owned() }, "t", 7) {
            Refusal::Down(cause) => ("down", cause.code),
            Refusal::Retry(cause, _) => ("retry", cause.code),
            Refusal::Reject(cause) => ("reject", cause.code),
            Refusal::Unknown(cause) => ("unknown", cause.code),
            Refusal::Held => panic!("a code holds nobody"),
        }
    }

    #[test]
    fn each_code_has_its_reaction() {
        for (code, remark, expected) in [
            (1, "UNKNOWN_ERROR", ("unknown", Code::SinkBroken)),
            (1, "[PC_SYNCHRONIZED]broker busy, start flow", ("retry", Code::SinkBusy)),
            (1, "timer message is under flow control", ("retry", Code::SinkBusy)),
            (1, "create mapped file failed, server is busy", ("down", Code::BrokerFull)),
            (1, "in-sync replicas not enough", ("down", Code::NotKept)),
            (1, "request queueId[9] is illegal", ("retry", Code::SinkBroken)),
            (1, "Sending message to topic[x] is forbidden.", ("reject", Code::SinkRefused)),
            (1, "AclException: Check signature failed for", ("down", Code::AuthRefused)),
            (1, "acl.common.AclException: No acl config for me", ("down", Code::AuthRefused)),
            (1, "AclException: No default permission for t", ("retry", Code::AuthRefused)),
            (2, "[OVERLOAD]system busy", ("retry", Code::SinkBusy)),
            (3, "request type 310 not supported", ("down", Code::SinkDown)),
            (10, "", ("unknown", Code::NotKept)),
            (11, "", ("unknown", Code::NotKept)),
            (12, "", ("unknown", Code::NotKept)),
            (1, "RuntimeException: message body size exceeded", ("reject", Code::TooLarge)),
            (13, "msg body length limit 4194304B", ("reject", Code::TooLarge)),
            (13, "timer message illegal, the delay time", ("reject", Code::SinkRefused)),
            (14, "service not available now", ("down", Code::BrokerFull)),
            (16, "User:me is not found.", ("down", Code::AuthRefused)),
            (16, "me has no permission to access t", ("retry", Code::AuthRefused)),
            (17, "topic[t] not exist", ("retry", Code::TopicMissing)),
            (215, "", ("retry", Code::SinkBusy)),
            (501, "", ("retry", Code::SinkBroken)),
            (1500, "", ("down", Code::SinkDown)),
            (4711, "", ("unknown", Code::SinkBroken)),
        ] {
            assert_eq!(judge(code, remark), expected, "{code} {remark}");
        }
    }

    #[test]
    fn the_name_of_a_topic_says_nothing_of_who_asks() {
        let topic = "document_signature_sent";
        for (code, remark, retries) in [
            (16, format!("me has no permission to access {topic}"), true),
            (16, "User:signature_bot has no permission to access Topic:t".to_owned(), true),
            (16, format!("the topic[{topic}] sending is closed"), true),
            (1, format!("No default permission for {topic}"), true),
            (1, format!("Check signature failed for {topic}"), false),
        ] {
            let judged = of(&Answer { code, remark: remark.clone() }, topic, 7);
            assert_eq!(matches!(judged, Refusal::Retry(..)), retries, "{remark}: {judged:?}");
            assert_eq!(matches!(judged, Refusal::Down(_)), !retries, "{remark}: {judged:?}");
        }
    }

    #[test]
    fn a_topic_that_is_missing_a_size_and_what_has_no_words_are_told() {
        let told = |code, remark: &str| match of(
            &Answer { code, remark: remark.to_owned() },
            "order_paid",
            4711,
        ) {
            Refusal::Retry(cause, _) | Refusal::Reject(cause) => cause.detail,
            refusal => panic!("{refusal:?}"),
        };
        assert!(told(17, "not exist").contains("order_paid"));
        assert!(told(13, "body length limit 1B").contains("4711 bytes"));
        for (code, name) in [(10, "FLUSH_DISK"), (11, "SLAVE_NOT"), (12, "FLUSH_SLAVE")] {
            let unnamed = of(&Answer { code, remark: String::new() }, "t", 7);
            assert!(unnamed.cause().unwrap().detail.contains(name), "{unnamed:?}");
        }
    }
}
