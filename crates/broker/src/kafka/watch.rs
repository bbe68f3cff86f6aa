//! What the client library tells of one producer: answers, lost connections, refusals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext};
use tokio::sync::Notify;

use super::slots::{Put, Slot};

/// Whoever listens to it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    state: Mutex<State>,
    /// Rung at a fault.
    changed: Notify,
}

/// What is known of one producer.
#[derive(Debug, Default)]
pub(super) struct State {
    /// A connection that was open is gone: what was sent on it may have arrived.
    pub(super) cut: bool,
    /// Something in it was refused or given up.
    pub(super) failed: bool,
    /// No broker can be reached.
    pub(super) down: bool,
    /// Who we are was refused.
    pub(super) refused: Option<(RDKafkaErrorCode, String)>,
    pub(super) last: String,
}

impl Watch {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until something is so.
    pub(super) async fn when(&self, is: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is(&self.state()) {
                return;
            }
            changed.await;
        }
    }
}

impl ClientContext for Watch {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(facility, line = told(line), "kafka");
        // The only place where the library tells that an open connection was lost.
        if facility == "FAIL" {
            let mut state = self.state();
            state.cut |= line.contains("in state UP");
            state.last = told(line);
            drop(state);
            self.ring();
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut state = self.state();
        match error.rdkafka_error_code() {
            Some(
                code @ (RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::SaslAuthenticationFailed
                | RDKafkaErrorCode::UnsupportedSASLMechanism
                | RDKafkaErrorCode::ClusterAuthorizationFailed),
            ) => state.refused = Some((code, told(reason))),
            Some(RDKafkaErrorCode::AllBrokersDown) => state.down = true,
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::GaplessGuarantee) => {
                state.failed = true;
                state.last = told(reason);
            }
            Some(RDKafkaErrorCode::Resolve) => state.last = told(reason),
            _ => {}
        }
        drop(state);
        self.ring();
    }
}

impl ProducerContext for Watch {
    type DeliveryOpaque = Box<Slot>;

    fn delivery(&self, result: &DeliveryResult<'_>, slot: Box<Slot>) {
        match result {
            Ok(put) => {
                slot.tell(Ok(Put { partition: put.partition(), offset: put.offset() }));
            }
            Err((error, _)) => {
                self.state().failed = true;
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                slot.tell(Err(code));
                self.ring();
            }
        }
    }
}

/// Returns a line of the library without its own name for the client, its tally of time, and what
/// a broker that is not trusted would need to guess a password.
pub(super) fn told(line: &str) -> String {
    let line =
        line.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")).map_or(line, |it| it.1);
    let ends = [" (after ", " (server's "].into_iter().filter_map(|end| line.find(end));
    line[..ends.min().unwrap_or(line.len())].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_library_is_told_in_short() {
        let line = "[thrd:a:1/1]: a:1/1: Connect to ipv4#a:1 failed: Connection refused \
                    (after 0ms in state CONNECT)";
        assert_eq!(told(line), "a:1/1: Connect to ipv4#a:1 failed: Connection refused");
        let line = "sasl_plaintext://a:1/1: SASL authentication error: SASL SCRAM authentication \
                    failed: ServerSignature mismatch (server's AAAA != ours canary) (after 9ms in \
                    state AUTH_REQ)";
        assert!(told(line).ends_with("ServerSignature mismatch"), "{}", told(line));
    }

    #[test]
    fn only_a_connection_that_was_open_is_cut() {
        let watch = Watch::default();
        watch.log(RDKafkaLogLevel::Error, "FAIL", "a:1: refused (after 0ms in state CONNECT)");
        assert!(!watch.state().cut);
        watch.log(RDKafkaLogLevel::Info, "FAIL", "a:1: Disconnected (after 5ms in state UP)");
        assert!(watch.state().cut);
        assert_eq!(watch.state().last, "a:1: Disconnected");
    }
}
