//! What a person is told of what goes wrong with a member of a group.

use event::{Cause, Code, Refusal};
use rdkafka::error::RDKafkaErrorCode as Error;

use crate::kafka::refusal::refusal;
use crate::manner::Subscription;

/// What the library has said of its connections.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Why we were not let in, unless a broker could not even be reached since.
    denied: Option<Refusal>,
}

impl Said {
    /// Judges an error, whose last word on connections is given; `None` where the library mends it
    /// by itself.
    pub(super) fn hear(
        &mut self,
        code: Error,
        last: &str,
        wants: &Subscription,
    ) -> Option<Refusal> {
        match code {
            Error::Authentication
            | Error::SaslAuthenticationFailed
            | Error::UnsupportedSASLMechanism => {
                let refusal = judge(code, last, wants);
                self.denied = Some(refusal.clone());
                Some(refusal)
            }
            // Brokers that let nobody in are soon all down, as the library sees it.
            Error::AllBrokersDown => {
                Some(self.denied.clone().unwrap_or_else(|| judge(code, last, wants)))
            }
            Error::BrokerTransportFailure | Error::Resolve | Error::SSL => {
                self.denied = None;
                None
            }
            Error::ClusterAuthorizationFailed
            | Error::TopicAuthorizationFailed
            | Error::GroupAuthorizationFailed
            | Error::UnknownTopicOrPartition
            | Error::InconsistentGroupProtocol => Some(judge(code, last, wants)),
            _ => None,
        }
    }
}

/// Judges an error. A feed offers nothing, so nothing of it may have arrived.
pub(super) fn judge(code: Error, last: &str, wants: &Subscription) -> Refusal {
    let Subscription { group, topics, .. } = wants;
    let code = match code {
        Error::AllBrokersDown if last.contains("SASL ") => Error::Authentication,
        code => code,
    };
    let mut what = format!("group {group} of {}", topics.join(", "));
    if is_of_connections(code) && !last.is_empty() {
        what = format!("{what}: {last}");
    }
    match refusal(code, &what) {
        Refusal::Unknown(_) => {
            let told = match code {
                Error::GroupAuthorizationFailed => Code::AuthRefused,
                _ => Code::SinkDown,
            };
            Refusal::Down(Cause::new(told, format_args!("{what}: {code}")))
        }
        refusal => refusal,
    }
}

/// Tells whether the library's last word on connections says more of it.
fn is_of_connections(code: Error) -> bool {
    matches!(
        code,
        Error::AllBrokersDown
            | Error::Authentication
            | Error::SaslAuthenticationFailed
            | Error::UnsupportedSASLMechanism
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_let_in_is_told_so_until_a_broker_cannot_be_reached() {
        let (mut said, wants) = (Said::default(), Subscription::new("stock", &["orders"]));
        let mut hear = |code| {
            let refusal = said.hear(code, "", &wants)?;
            refusal.cause().map(|cause| cause.code)
        };
        assert_eq!(hear(Error::AllBrokersDown), Some(Code::SinkDown));
        assert_eq!(hear(Error::Authentication), Some(Code::AuthRefused));
        assert_eq!(hear(Error::AllBrokersDown), Some(Code::AuthRefused));
        assert_eq!(hear(Error::BrokerTransportFailure), None);
        assert_eq!(hear(Error::AllBrokersDown), Some(Code::SinkDown));
        assert_eq!(hear(Error::GroupAuthorizationFailed), Some(Code::AuthRefused));
    }

    #[test]
    fn whoever_was_refused_is_not_told_that_nobody_is_there() {
        let wants = Subscription::new("g", &["orders"]);
        for (last, code) in [
            ("sasl_ssl://a:1/1: SASL authentication error: invalid", Code::AuthRefused),
            ("a:1/1: SASL PLAIN mechanism handshake failed", Code::AuthRefused),
            ("sasl_ssl://a:1/1: Connect to ipv4#a:1 failed", Code::SinkDown),
        ] {
            let refused = judge(Error::AllBrokersDown, last, &wants);
            let Refusal::Down(cause) = refused else { panic!("{refused:?}") };
            assert!(cause.code == code && cause.detail.contains(last), "{cause}");
        }
    }
}
