//! Why something went wrong: a stable code with a page, and particulars without secrets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scrub;

/// Why an event was refused, or a room could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The stable code; `postbox explain CODE` and `docs/errors/CODE.md` tell what to do.
    pub code: Code,
    /// The particulars: bounded, scrubbed, on one line.
    pub detail: String,
}

impl Cause {
    /// The most bytes a detail keeps.
    pub const DETAIL: usize = 2048;

    /// Makes a cause. Secrets and control characters in the detail are masked here, so that every
    /// log, column and page that shows it is clean.
    pub fn new(code: Code, detail: impl fmt::Display) -> Cause {
        let clean = scrub(&detail.to_string());
        let mut line = String::with_capacity(clean.len().min(Cause::DETAIL));
        for c in clean.chars() {
            if line.len() + c.len_utf8() > Cause::DETAIL {
                break;
            }
            line.push(if c.is_control() { ' ' } else { c });
        }
        Cause { code, detail: line }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

/// One code, for people.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// The code.
    pub code: Code,
    /// What it means and what to do: the page under `docs/errors/`.
    pub page: &'static str,
}

macro_rules! codes {
    ($($variant:ident $text:literal,)+) => {
        /// A stable name for a cause.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $(
                #[doc = concat!("`", $text, "`: see `docs/errors/", $text, ".md`.")]
                #[serde(rename = $text)]
                $variant,
            )+
        }

        impl Code {
            /// Returns the code as people write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)+ }
            }
        }

        /// Every code with its page.
        pub const EXPLANATIONS: &[Explanation] = &[
            $(Explanation {
                code: Code::$variant,
                page: include_str!(concat!("../../../docs/errors/", $text, ".md")),
            },)+
        ];
    };
}

codes! {
    AttemptsSpent "attempts-spent",
    CrashLoop "crash-loop",
    Unrouted "unrouted",
    BadEvent "bad-event",
    SinkDown "sink-down",
    SinkTimeout "sink-timeout",
    SinkBusy "sink-busy",
    SinkRefused "sink-refused",
    SinkBroken "sink-broken",
    AddressRefused "address-refused",
    AuthRefused "auth-refused",
    TopicMissing "topic-missing",
    TooLarge "too-large",
    BrokerFull "broker-full",
    NotKept "not-kept",
    DurabilityTooLow "durability-too-low",
    ConsumersBehind "consumers-behind",
    ConsumerFailed "consumer-failed",
    StoreDown "store-down",
    StoreBusy "store-busy",
    SchemaMissing "schema-missing",
    SchemaUnknown "schema-unknown",
    StoreBroken "store-broken",
    ConfigInvalid "config-invalid",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Finds the page of a code.
pub fn explain(code: &str) -> Option<&'static Explanation> {
    EXPLANATIONS.iter().find(|explanation| explanation.code.as_str() == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_starts_with_its_code() {
        for Explanation { code, page } in EXPLANATIONS {
            assert!(page.starts_with(&format!("# {code}\n")), "docs/errors/{code}.md");
        }
    }

    #[test]
    fn a_detail_is_one_bounded_line_without_secrets() {
        let cause =
            Cause::new(Code::SinkBroken, format!("a\r\nb password=canary {}", "é".repeat(4000)));
        assert!(cause.detail.len() <= Cause::DETAIL);
        assert!(!cause.detail.contains(['\n', '\r']) && !cause.detail.contains("canary"));
    }
}
