//! From what RabbitMQ says, or its silence, to a refusal.
//!
//! A channel that the broker closes has refused, for certain, the one event that was alone on it;
//! of several, one, and the others are unknown. A connection that ends leaves its events unknown.

use std::fmt;

use event::{Answer, Cause, Code, Receipt, Refusal};
use lapin::message::BasicReturnMessage;
use lapin::protocol::{AMQPError, AMQPErrorKind};
use lapin::{Confirmation, Error, ErrorKind};

/// Numbers that RabbitMQ gives as reasons.
const CONTENT_TOO_LARGE: u16 = 311;
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
const RESOURCE_ERROR: u16 = 506;
const NOT_ALLOWED: u16 = 530;

/// Where something was asked for, as a person may read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where<'a> {
    pub(super) host: &'a str,
    pub(super) exchange: &'a str,
}

/// Reads the broker's answer to one event that did not come back. What a confirmation carries
/// belongs to whom it names.
pub(super) fn confirmed(confirmation: &Confirmation) -> Answer {
    match confirmation {
        Confirmation::Ack(_) => Ok(Receipt { broker_id: None }),
        Confirmation::Nack(_) => {
            // One nack stands for all queues: those that could take it have it.
            let detail = "nack: a queue did not take it, because it is full (reject-publish), its \
                          majority is missing or its node failed; others may have it";
            Err(Refusal::Unknown(Cause::new(Code::NotKept, detail)))
        }
        Confirmation::NotRequested => {
            let detail = "the broker was not asked to confirm; it may have arrived";
            Err(Refusal::Unknown(Cause::new(Code::SinkBroken, detail)))
        }
    }
}

/// Judges an event that came back: it is confirmed because nobody is left who could lose it. A
/// queue that is bound later gets it then, so it is not dead.
pub(super) fn unroutable(returned: &BasicReturnMessage, at: Where<'_>) -> Refusal {
    let BasicReturnMessage { reply_code, reply_text, delivery, .. } = returned;
    let (key, exchange) = (&delivery.routing_key, name(at.exchange));
    let detail = format_args!(
        "{reply_code} {reply_text}: no queue is bound to {exchange} for the routing key {:?}",
        key.as_str()
    );
    Refusal::Retry(Cause::new(Code::TopicMissing, detail), None)
}

/// Judges a publish that ended without an answer.
pub(super) fn publish(error: &Error, at: Where<'_>) -> Refusal {
    match error.kind() {
        ErrorKind::ProtocolError(said) if is_soft(said) => closed_channel(said, at),
        // Said before anything was written.
        ErrorKind::InvalidChannelState(_, "basic.publish") => down(at.host, error),
        ErrorKind::ProtocolError(said) if said.get_id() == RESOURCE_ERROR => {
            Refusal::Unknown(Cause::new(Code::BrokerFull, perhaps(at.host, said)))
        }
        _ => Refusal::Unknown(Cause::new(Code::SinkBroken, perhaps(at.host, error))),
    }
}

/// Says whether the broker closed a channel because of one of its events, whichever that was. They
/// have one exchange and one routing key: where none was taken, what is missing is missing for all.
pub(super) fn blames_one(error: &Error, taken: bool) -> bool {
    let ErrorKind::ProtocolError(said) = error.kind() else { return false };
    let is_missing = matches!(said.get_id(), ACCESS_REFUSED | NOT_FOUND);
    is_soft(said) && (taken || !is_missing)
}

/// Judges an event that another's fault left without an answer.
pub(super) fn open(error: &Error, at: Where<'_>) -> Refusal {
    Refusal::Unknown(Cause::new(Code::SinkBroken, perhaps(at.host, error)))
}

/// Judges an event that was offered twice by what was said the second time. What it is by itself it
/// was before; else the first offer may have come to something.
pub(super) fn again(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Down(cause) | Refusal::Retry(cause, _) => {
            let detail = format_args!("it may have arrived: {}", cause.detail);
            Refusal::Unknown(Cause::new(cause.code, detail))
        }
        Refusal::Reject(_) | Refusal::Unknown(_) | Refusal::Held => refusal,
    }
}

/// Judges a channel that the broker closed because of the one thing that was asked on it.
fn closed_channel(said: &AMQPError, at: Where<'_>) -> Refusal {
    let (text, exchange) = (said.get_message().as_str(), name(at.exchange));
    match said.get_id() {
        // All events go to this exchange.
        NOT_FOUND => Refusal::Down(Cause::new(
            Code::TopicMissing,
            format_args!("{text}: make {exchange}, or let declare = true make it"),
        )),
        ACCESS_REFUSED => access(text),
        CONTENT_TOO_LARGE => Refusal::Reject(Cause::new(Code::TooLarge, text)),
        PRECONDITION_FAILED if text.contains("larger than") => {
            Refusal::Reject(Cause::new(Code::TooLarge, text))
        }
        RESOURCE_LOCKED => Refusal::Retry(Cause::new(Code::SinkBusy, text), None),
        _ => Refusal::Retry(Cause::new(Code::SinkRefused, text), None),
    }
}

/// Judges a missing right: to one routing key, or to the exchange and so to everything.
fn access(text: &str) -> Refusal {
    if text.contains("to topic") {
        let detail = format_args!("{text}: set_topic_permissions grants it");
        return Refusal::Retry(Cause::new(Code::AuthRefused, detail), None);
    }
    let detail = format_args!("{text}: set_permissions grants it");
    Refusal::Down(Cause::new(Code::AuthRefused, detail))
}

/// Judges anything that was asked before an event was offered: nothing was taken.
pub(super) fn before(error: &Error, at: Where<'_>) -> Refusal {
    match error.kind() {
        ErrorKind::ProtocolError(said) => match said.get_id() {
            ACCESS_REFUSED | NOT_ALLOWED => {
                let text = said.get_message().as_str();
                let detail = format_args!(
                    "{}: {text}: check user, password and virtual host in the url, and the \
                     user's rights",
                    at.host
                );
                Refusal::Down(Cause::new(Code::AuthRefused, detail))
            }
            NOT_FOUND => closed_channel(said, at),
            PRECONDITION_FAILED => {
                let text = said.get_message().as_str();
                let detail = format_args!(
                    "{}: {text}: it is there with other settings; delete it, or do not declare it",
                    at.host
                );
                Refusal::Down(Cause::new(Code::SinkRefused, detail))
            }
            RESOURCE_ERROR => Refusal::Down(Cause::new(Code::BrokerFull, detail(at.host, said))),
            _ => down(at.host, said),
        },
        ErrorKind::ChannelsLimitReached => {
            let detail = "the broker's channel_max is reached: lower the sink's concurrency";
            Refusal::Down(Cause::new(Code::SinkBusy, detail))
        }
        _ => down(at.host, error),
    }
}

/// Judges the same of a queue, whose name stands in the place of the exchange.
pub(super) fn before_queue(error: &Error, at: Where<'_>) -> Refusal {
    match error.kind() {
        ErrorKind::ProtocolError(said) if said.get_id() == NOT_FOUND => {
            let (host, queue, text) = (at.host, at.exchange, said.get_message().as_str());
            let detail = format_args!("{host}: {text}: make the queue {queue:?}, or declare it");
            Refusal::Down(Cause::new(Code::TopicMissing, detail))
        }
        _ => before(error, at),
    }
}

/// Tells that the broker cannot be reached.
pub(super) fn down(host: &str, why: impl fmt::Display) -> Refusal {
    Refusal::Down(Cause::new(Code::SinkDown, detail(host, why)))
}

/// Tells that the broker has closed its ears to everybody who publishes.
pub(super) fn blocked(host: &str, reason: &str) -> Refusal {
    let detail = format_args!(
        "{host}: the broker takes nothing in while an alarm is on: {reason}; make room on its \
         disk or in its memory"
    );
    Refusal::Down(Cause::new(Code::BrokerFull, detail))
}

/// Tells that an answer did not come in time.
pub(super) fn late(host: &str, blocked: Option<&str>) -> Refusal {
    let (code, why) = match blocked {
        Some(reason) => (Code::BrokerFull, format!("an alarm is on: {reason}")),
        None => (Code::SinkTimeout, "no confirmation in time".to_owned()),
    };
    Refusal::Unknown(Cause::new(code, perhaps(host, why)))
}

fn detail(host: &str, why: impl fmt::Display) -> String {
    format!("{host}: {why}")
}

fn perhaps(host: &str, why: impl fmt::Display) -> String {
    format!("it may have arrived: {host}: {why}")
}

fn is_soft(said: &AMQPError) -> bool {
    matches!(said.kind(), AMQPErrorKind::Soft(_))
}

fn name(exchange: &str) -> String {
    match exchange {
        "" => "the default exchange".to_owned(),
        exchange => format!("the exchange {exchange:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use lapin::{ChannelState, ConnectionState};

    use super::*;

    const AT: Where<'_> = Where { host: "h:5672", exchange: "orders" };

    fn said(id: u16, text: &str) -> Error {
        let error = AMQPError::from_id(id, text.into()).expect("a number that AMQP knows");
        ErrorKind::ProtocolError(error).into()
    }

    fn short(refusal: &Refusal) -> (&'static str, Code) {
        match refusal {
            Refusal::Down(cause) => ("down", cause.code),
            Refusal::Retry(cause, None) => ("retry", cause.code),
            Refusal::Reject(cause) => ("reject", cause.code),
            Refusal::Unknown(cause) => ("unknown", cause.code),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_number_that_ends_a_publish_has_its_refusal() {
        let size = "PRECONDITION_FAILED - message size 17 is larger than configured max size 16";
        let topic = "ACCESS_REFUSED - write access to topic 'a' in exchange 'x' in vhost '/' \
                     refused for user 'u'";
        let right =
            "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'";
        let cases = [
            (311, "CONTENT_TOO_LARGE", ("reject", Code::TooLarge)),
            (403, right, ("down", Code::AuthRefused)),
            (403, topic, ("retry", Code::AuthRefused)),
            (404, "NOT_FOUND - no exchange 'x' in vhost '/'", ("down", Code::TopicMissing)),
            (405, "RESOURCE_LOCKED", ("retry", Code::SinkBusy)),
            (406, size, ("reject", Code::TooLarge)),
            (406, "PRECONDITION_FAILED - something else", ("retry", Code::SinkRefused)),
            (320, "CONNECTION_FORCED - broker forced", ("unknown", Code::SinkBroken)),
            (501, "FRAME_ERROR", ("unknown", Code::SinkBroken)),
            (504, "CHANNEL_ERROR", ("unknown", Code::SinkBroken)),
            (506, "RESOURCE_ERROR", ("unknown", Code::BrokerFull)),
            (530, "NOT_ALLOWED", ("unknown", Code::SinkBroken)),
            (541, "INTERNAL_ERROR", ("unknown", Code::SinkBroken)),
        ];
        for (id, text, expected) in cases {
            assert_eq!(short(&publish(&said(id, text), AT)), expected, "{id} {text}");
        }
    }

    #[test]
    fn a_lost_connection_leaves_the_event_unknown_unless_nothing_was_written() {
        let cut = Error::from(io::Error::from(io::ErrorKind::ConnectionReset));
        let lost = [
            cut,
            ErrorKind::MissingHeartbeatError.into(),
            ErrorKind::InvalidConnectionState(ConnectionState::Closed).into(),
            ErrorKind::InvalidChannelState(ChannelState::Closed, "channel.close-ok").into(),
        ];
        for error in lost {
            assert_eq!(short(&publish(&error, AT)), ("unknown", Code::SinkBroken), "{error:?}");
        }
        let unwritten = ErrorKind::InvalidChannelState(ChannelState::Error, "basic.publish").into();
        assert_eq!(short(&publish(&unwritten, AT)), ("down", Code::SinkDown));
    }

    #[test]
    fn one_of_several_is_at_fault_unless_what_is_missing_is_missing_for_all() {
        let blames = |error: Error| [false, true].map(|taken| blames_one(&error, taken));
        assert_eq!(blames(said(406, "PRECONDITION_FAILED - x is larger than y")), [true, true]);
        assert_eq!(blames(said(404, "NOT_FOUND - no exchange 'x'")), [false, true]);
        assert_eq!(blames(said(403, "ACCESS_REFUSED - write access refused")), [false, true]);
        assert_eq!(blames(said(541, "INTERNAL_ERROR")), [false, false]);
        let unwritten = ErrorKind::InvalidChannelState(ChannelState::Error, "basic.publish");
        assert_eq!(blames(unwritten.into()), [false, false]);
    }

    #[test]
    fn nothing_that_is_said_of_a_second_offer_means_that_the_event_is_not_there() {
        let cause = || Cause::new(Code::SinkDown, "no channel");
        for refusal in [Refusal::Down(cause()), Refusal::Retry(cause(), None)] {
            let Refusal::Unknown(told) = again(refusal) else { panic!() };
            assert_eq!(told.code, Code::SinkDown);
            assert_eq!(told.detail, "it may have arrived: no channel");
        }
        assert_eq!(again(Refusal::Reject(cause())), Refusal::Reject(cause()));
        let error = said(406, "PRECONDITION_FAILED - x is larger than y");
        assert_eq!(short(&open(&error, AT)), ("unknown", Code::SinkBroken));
    }

    #[test]
    fn before_an_event_is_offered_everything_is_down_and_says_what_to_do() {
        let cases = [
            (said(403, "ACCESS_REFUSED - Login was refused"), Code::AuthRefused, "password"),
            (said(530, "NOT_ALLOWED - vhost nope not found"), Code::AuthRefused, "virtual host"),
            (said(404, "NOT_FOUND - no exchange 'orders'"), Code::TopicMissing, "declare = true"),
            (said(406, "PRECONDITION_FAILED - inequivalent arg"), Code::SinkRefused, "settings"),
            (said(506, "RESOURCE_ERROR"), Code::BrokerFull, "h:5672"),
            (said(541, "INTERNAL_ERROR"), Code::SinkDown, "h:5672"),
            (ErrorKind::ChannelsLimitReached.into(), Code::SinkBusy, "concurrency"),
            (io::Error::from(io::ErrorKind::ConnectionRefused).into(), Code::SinkDown, "refused"),
        ];
        for (error, code, words) in cases {
            let Refusal::Down(cause) = before(&error, AT) else { panic!("{error:?}") };
            assert_eq!(cause.code, code, "{error:?}");
            assert!(cause.detail.contains(words), "{cause}");
        }
    }

    #[test]
    fn only_an_acknowledgement_is_a_receipt() {
        assert!(confirmed(&Confirmation::Ack(None)).is_ok());
        let nack = confirmed(&Confirmation::Nack(None)).unwrap_err();
        assert_eq!(short(&nack), ("unknown", Code::NotKept), "another queue may have it");
        let unasked = confirmed(&Confirmation::NotRequested).unwrap_err();
        assert_eq!(short(&unasked), ("unknown", Code::SinkBroken));
    }

    #[test]
    fn silence_is_unknown_and_an_alarm_is_named() {
        assert_eq!(short(&late("h", None)), ("unknown", Code::SinkTimeout));
        assert_eq!(short(&late("h", Some("low on disk"))), ("unknown", Code::BrokerFull));
        let Refusal::Down(cause) = blocked("h", "low on disk") else { panic!() };
        assert!(cause.detail.contains("low on disk"), "{cause}");
    }
}
