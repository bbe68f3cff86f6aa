//! How each broker of a cluster is reached by a client of our own, and who is shown to it.

use std::fmt::Write;

use event::Secret;
use tokio_rustls::rustls::crypto::ring;

use super::Mechanism;
use super::scram::{Hash, Scram};
use crate::trust::Trust;

/// The way to a broker.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    /// Whom to trust; without it nothing is encrypted.
    pub(super) trust: Option<Trust>,
    /// User and password.
    pub(super) user: Option<(String, Secret)>,
    pub(super) mechanism: Mechanism,
}

impl Mechanism {
    /// Returns the name by which Kafka knows it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    /// Begins to show that we know a password without showing it, if that is how it is shown.
    pub(super) fn scram(self, user: &str) -> Option<Scram> {
        let hash = match self {
            Mechanism::Plain => return None,
            Mechanism::ScramSha256 => Hash::Sha256,
            Mechanism::ScramSha512 => Hash::Sha512,
        };
        Some(Scram::new(hash, user, nonce()))
    }
}

/// Returns what nobody could know before.
fn nonce() -> String {
    let mut random = [0_u8; 16];
    let filled = ring::default_provider().secure_random.fill(&mut random);
    filled.expect("the machine has random numbers");
    random.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes any text");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_begin_with_the_same() {
        let first = || Mechanism::ScramSha512.scram("joe").expect("it is one").first();
        assert_ne!(first(), first());
        assert!(first().starts_with("n,,n=joe,r=") && first().len() == 11 + 32, "{}", first());
        assert!(Mechanism::Plain.scram("joe").is_none());
    }
}
