//! What a sink has whichever way its events go: through a proxy, or to the brokers themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Secret};
use tokio::time::Instant;

use super::Options;
use super::letter::{self, Letters};
use super::remoting::Trust;
use super::topics::Topics;
use crate::gate::Gate;
use crate::keyed::Until;
use crate::leads::Leads;
use crate::rounds::Rounds;

/// How often it is told that copies are missing, and how long none was when it is told that they
/// are made again.
const TELL: Duration = Duration::from_secs(60);

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
    alone: Mutex<Alone>,
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
        let (keys, topics, alone) = (access.keys, Topics::default(), Mutex::default());
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
        if self.alone().is_over(Instant::now()) {
            tracing::info!("RocketMQ has not missed a second copy of an event for a minute");
        }
    }

    /// The second copy of an event was not made.
    pub(super) fn uncopied(&self, topic: &str) {
        if self.alone().is_to_be_told(Instant::now()) {
            tracing::warn!(
                topic,
                "RocketMQ has no second copy of new events: a slave is away, or too slow; events \
                 stay unsettled until it is back"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn is_alone(&self) -> bool {
        self.alone().last.is_some()
    }

    fn alone(&self) -> MutexGuard<'_, Alone> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was told of copies that are missing. Another broker may make all of its own meanwhile, so a
/// receipt alone is no end of it.
#[derive(Default)]
struct Alone {
    told: Option<Instant>,
    last: Option<Instant>,
}

impl Alone {
    fn is_to_be_told(&mut self, now: Instant) -> bool {
        self.last = Some(now);
        let due = self.told.is_none_or(|told| now - told >= TELL);
        if due {
            self.told = Some(now);
        }
        due
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let over = self.last.is_some_and(|last| now - last >= TELL);
        if over {
            *self = Alone::default();
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_copies_are_missing_is_told_once_a_minute_whatever_other_brokers_do() {
        let (mut alone, start) = (Alone::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!alone.is_over(start), "nothing was missing");
        assert!(alone.is_to_be_told(start));
        for second in 1..60 {
            assert!(!alone.is_over(after(second)), "another broker takes events");
            assert!(!alone.is_to_be_told(after(second)));
        }
        assert!(alone.is_to_be_told(after(60)));
        assert!(!alone.is_over(after(119)));
        assert!(alone.is_over(after(120)) && !alone.is_over(after(121)));
        assert!(alone.is_to_be_told(after(122)), "it begins anew");
    }
}
