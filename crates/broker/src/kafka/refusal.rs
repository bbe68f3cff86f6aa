//! What each error code of Kafka and of its client library means for an event.
//!
//! It says "not taken" only for codes by which a broker, or the library before it asked one, says
//! so. Every other code is unknown.

use event::{Cause, Code, Refusal};
use rdkafka::error::RDKafkaErrorCode as Error;

use crate::width::Signal;

/// Judges a code; `detail` says what was asked for.
pub(super) fn refusal(error: Error, detail: &str) -> Refusal {
    let (reaction, code, advice) = table(error);
    let told = match advice {
        "" => format!("{detail}: {error}"),
        advice => format!("{detail}: {error}; {advice}"),
    };
    match reaction {
        Reaction::Down => Refusal::Down(Cause::new(code, told)),
        Reaction::Retry => Refusal::Retry(Cause::new(code, told), None),
        Reaction::Reject => Refusal::Reject(Cause::new(code, told)),
        Reaction::Unknown => {
            Refusal::Unknown(Cause::new(code, format_args!("it may have arrived: {told}")))
        }
    }
}

/// Says what a refusal tells about load.
pub(super) fn load(refusal: &Refusal) -> Signal {
    let (Refusal::Retry(cause, _) | Refusal::Unknown(cause)) = refusal else {
        return Signal::Silent;
    };
    match cause.code {
        Code::SinkBusy | Code::SinkTimeout | Code::NotKept | Code::BrokerFull => Signal::Overloaded,
        Code::SinkBroken => Signal::Failed,
        _ => Signal::Silent,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    Down,
    Retry,
    Reject,
    Unknown,
}

const IN_SYNC: &str = "fewer replicas are in sync than min.insync.replicas asks for";
const MAKE: &str = "make it, or let the cluster make topics (auto.create.topics.enable)";
const LET_IN: &str = "correct `user`, `password` and `mechanism`";
const LET_WRITE: &str = "grant Write on the topic to this user";
const LET_NUMBER: &str = "grant IdempotentWrite on the cluster to this user";
const SMALLER: &str = "raise max.message.bytes of the topic, or store the payload elsewhere";
const NAME: &str = "a name has letters, digits, '.', '_' and '-', at most 249: set `topic`";

fn table(error: Error) -> (Reaction, Code, &'static str) {
    use Reaction::{Down, Reject, Retry, Unknown};
    match error {
        Error::AllBrokersDown
        | Error::Resolve
        | Error::SSL
        | Error::BrokerNotAvailable
        | Error::UnsupportedFeature
        | Error::UnsupportedVersion => (Down, Code::SinkDown, ""),

        Error::Authentication
        | Error::SaslAuthenticationFailed
        | Error::UnsupportedSASLMechanism
        | Error::IllegalSASLState
        | Error::SecurityDisabled => (Down, Code::AuthRefused, LET_IN),
        Error::ClusterAuthorizationFailed => (Down, Code::AuthRefused, LET_NUMBER),
        Error::TopicAuthorizationFailed => (Retry, Code::AuthRefused, LET_WRITE),

        Error::UnknownTopic | Error::UnknownPartition | Error::UnknownTopicOrPartition => {
            (Retry, Code::TopicMissing, MAKE)
        }
        Error::InvalidTopic => (Reject, Code::SinkRefused, NAME),

        Error::MessageSizeTooLarge | Error::InvalidMessageSize => (Reject, Code::TooLarge, SMALLER),
        // The batch is, which need not be this event's fault.
        Error::MessageBatchTooLarge => (Retry, Code::TooLarge, SMALLER),

        Error::InvalidRecord
        | Error::InvalidTimestamp
        | Error::PolicyViolation
        | Error::UnsupportedForMessageFormat
        | Error::UnsupportedCompressionType => (Reject, Code::SinkRefused, ""),

        Error::LeaderNotAvailable
        | Error::NotLeaderForPartition
        | Error::ReplicaNotAvailable
        | Error::FencedLeaderEpoch
        | Error::UnknownLeaderEpoch
        | Error::ThrottlingQuotaExceeded
        | Error::QueueFull => (Retry, Code::SinkBusy, ""),
        // Another event of the same batch was at fault, which is no want of room.
        Error::InvalidDifferentRecord => (Retry, Code::SinkBroken, ""),
        // What came was not what was said: the checksum is wrong.
        Error::InvalidMessage => (Retry, Code::SinkBroken, ""),
        Error::KafkaStorageError | Error::LogDirNotFound => (Retry, Code::BrokerFull, ""),

        // By itself the library asks again for these, until our timeout, which then is the answer.
        Error::NotEnoughReplicas | Error::ISRInsufficient => (Retry, Code::NotKept, IN_SYNC),
        Error::NotEnoughReplicasAfterAppend => (Unknown, Code::NotKept, IN_SYNC),

        Error::MessageTimedOut
        | Error::OperationTimedOut
        | Error::TimedOutQueue
        | Error::RequestTimedOut => (Unknown, Code::SinkTimeout, ""),
        _ => (Unknown, Code::SinkBroken, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(error: Error) -> (&'static str, Code) {
        match refusal(error, "orders") {
            Refusal::Down(cause) => ("down", cause.code),
            Refusal::Retry(cause, _) => ("retry", cause.code),
            Refusal::Reject(cause) => ("reject", cause.code),
            Refusal::Unknown(cause) => {
                assert!(cause.detail.contains("it may have arrived"), "{cause}");
                ("unknown", cause.code)
            }
            Refusal::Held => panic!("a code is an answer"),
        }
    }

    #[test]
    fn every_code_has_its_reaction() {
        let cases = [
            (Error::AllBrokersDown, "down", Code::SinkDown),
            (Error::Resolve, "down", Code::SinkDown),
            (Error::Authentication, "down", Code::AuthRefused),
            (Error::SaslAuthenticationFailed, "down", Code::AuthRefused),
            (Error::ClusterAuthorizationFailed, "down", Code::AuthRefused),
            (Error::TopicAuthorizationFailed, "retry", Code::AuthRefused),
            (Error::UnknownTopicOrPartition, "retry", Code::TopicMissing),
            (Error::UnknownTopic, "retry", Code::TopicMissing),
            (Error::InvalidTopic, "reject", Code::SinkRefused),
            (Error::MessageSizeTooLarge, "reject", Code::TooLarge),
            (Error::MessageBatchTooLarge, "retry", Code::TooLarge),
            (Error::InvalidRecord, "reject", Code::SinkRefused),
            (Error::PolicyViolation, "reject", Code::SinkRefused),
            (Error::InvalidDifferentRecord, "retry", Code::SinkBroken),
            (Error::NotLeaderForPartition, "retry", Code::SinkBusy),
            (Error::ThrottlingQuotaExceeded, "retry", Code::SinkBusy),
            (Error::KafkaStorageError, "retry", Code::BrokerFull),
            (Error::NotEnoughReplicas, "retry", Code::NotKept),
            (Error::NotEnoughReplicasAfterAppend, "unknown", Code::NotKept),
            (Error::MessageTimedOut, "unknown", Code::SinkTimeout),
            (Error::RequestTimedOut, "unknown", Code::SinkTimeout),
        ];
        for (error, reaction, code) in cases {
            assert_eq!(judged(error), (reaction, code), "{error:?}");
        }
    }

    #[test]
    fn whoever_cannot_keep_up_says_so_and_a_wrong_event_says_nothing_of_it() {
        let cases = [
            (Error::ThrottlingQuotaExceeded, Signal::Overloaded),
            (Error::RequestTimedOut, Signal::Overloaded),
            (Error::NotEnoughReplicas, Signal::Overloaded),
            (Error::NotEnoughReplicasAfterAppend, Signal::Overloaded),
            (Error::KafkaStorageError, Signal::Overloaded),
            (Error::NetworkException, Signal::Failed),
            (Error::InvalidDifferentRecord, Signal::Failed),
            (Error::InvalidRecord, Signal::Silent),
            (Error::UnknownTopic, Signal::Silent),
            (Error::MessageBatchTooLarge, Signal::Silent),
            (Error::AllBrokersDown, Signal::Silent),
        ];
        for (error, signal) in cases {
            assert_eq!(load(&refusal(error, "orders")), signal, "{error:?}");
        }
    }

    #[test]
    fn what_nobody_has_thought_of_may_have_arrived() {
        for error in [
            Error::BrokerTransportFailure,
            Error::NetworkException,
            Error::PurgeInflight,
            Error::PurgeQueue,
            Error::Fatal,
            Error::GaplessGuarantee,
            Error::OutOfOrderSequenceNumber,
            Error::UnknownProducerId,
            Error::Unknown,
        ] {
            assert_eq!(judged(error), ("unknown", Code::SinkBroken), "{error:?}");
        }
    }

    #[test]
    fn a_cause_says_what_was_asked_for_and_what_to_do() {
        let Refusal::Retry(cause, _) = refusal(Error::UnknownTopic, "orders") else { panic!() };
        assert!(
            cause.detail.starts_with("orders: ") && cause.detail.contains("make it"),
            "{cause}"
        );
    }
}
