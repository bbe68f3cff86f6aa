//! What a sink has whichever way its events go: through a proxy, or to the brokers themselves.

use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Code, Secret};

use super::Options;
use super::letter::{self, Letters};
use super::remoting::Trust;
use super::topics::Topics;
use super::unkept::Unkept;
use crate::gate::Gate;
use crate::keyed::Until;
use crate::leads::Leads;
use crate::rounds::Rounds;

/// What both have.
pub(super) struct Common {
    pub(super) keys: Option<(String, Secret)>,
    /// `HOST:PORT` of each name server: only they lead to the settings of brokers.
    pub(super) names: Vec<String>,
    /// How name servers and brokers are trusted; without it nothing is encrypted.
    pub(super) trust: Option<Trust>,
    pub(super) timeout: Duration,
    pub(super) topics: Topics,
    pub(super) leads: Leads,
    pub(super) rounds: Rounds,
    pub(super) letters: Letters,
    pub(super) until: Until,
    pub(super) gate: Arc<Gate>,
    pub(super) unkept: Unkept,
}

impl Common {
    /// Checks the options. `destination` is what the gate stands before.
    pub(super) fn new(
        options: Options,
        destination: &str,
        names: Vec<String>,
        trust: Option<Trust>,
    ) -> Result<Common, Cause> {
        let Options { access, topic, shape, manner } = options;
        if manner.timeout.is_zero() {
            return Err(Cause::new(Code::ConfigInvalid, "timeout: it must be longer than 0"));
        }
        let gate = manner.gates.of(destination, manner.concurrency);
        let (until, timeout) = (manner.until(), manner.timeout);
        let leads = Leads::spelled(&topic, &manner.topics, Some(letter::topic));
        let letters = Letters { source: manner.source, topic, shape };
        let (keys, topics, unkept) = (access.keys, Topics::default(), Unkept::default());
        let rounds = Rounds::default();
        Ok(Common {
            keys,
            names,
            trust,
            timeout,
            topics,
            leads,
            rounds,
            letters,
            until,
            gate,
            unkept,
        })
    }
}
