//! What a sink has whichever way its events go: through a proxy, or to the brokers themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event::{Cause, Code, Secret};

use super::Options;
use super::letter::{self, Letters};
use super::remoting::Trust;
use super::topics::Topics;
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
    /// Whether it was told that copies are missing; told once, until all is well again.
    alone: AtomicBool,
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
        let (keys, topics, alone) = (access.keys, Topics::default(), AtomicBool::new(false));
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
            alone,
        })
    }

    /// An event of this topic was taken and kept.
    pub(super) fn kept(&self, topic: &str) {
        self.topics.worked(topic);
        if self.alone.swap(false, Ordering::Relaxed) {
            tracing::info!("RocketMQ has a second copy of new events again");
        }
    }

    /// The second copy of an event was not made.
    pub(super) fn uncopied(&self, topic: &str) {
        if !self.alone.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                topic,
                "RocketMQ has no second copy of new events: its master is alone; events stay \
                 unsettled until a slave is back"
            );
        }
    }
}
