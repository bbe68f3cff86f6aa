//! What a sink knows of its topics: which it has published to, and how large an event may be there.
//!
//! Pure. A look is believed for a while, also one that told nothing: where it may not be taken,
//! each large event would ask in vain.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a look is believed: whoever changes a setting need not wait for longer.
const BELIEVED: Duration = Duration::from_secs(300);

/// The topics of a sink.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<HashMap<String, Option<Told>>>);

/// What a look told.
#[derive(Clone, Copy, Debug)]
struct Told {
    largest: Option<usize>,
    at: Instant,
}

impl Topics {
    /// Remembers a topic that was published to.
    pub(super) fn remember(&self, topic: &str) {
        let mut topics = self.topics();
        if !topics.contains_key(topic) {
            topics.insert(topic.to_owned(), None);
        }
    }

    /// Returns the topics, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.topics().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns what a look told not long ago, which may be nothing; `None` if it is time for one.
    pub(super) fn told(&self, topic: &str, now: Instant) -> Option<Option<usize>> {
        let told = (*self.topics().get(topic)?)?;
        (now < told.at + BELIEVED).then_some(told.largest)
    }

    /// Notes what a look told.
    pub(super) fn tell(&self, topic: &str, largest: Option<usize>, now: Instant) {
        self.topics().insert(topic.to_owned(), Some(Told { largest, at: now }));
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, Option<Told>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_believed_for_a_while_also_one_that_told_nothing() {
        let (topics, now) = (Topics::default(), Instant::now());
        topics.remember("a");
        assert_eq!(topics.told("a", now), None, "nobody has looked");
        for largest in [Some(1000), None] {
            topics.tell("a", largest, now);
            assert_eq!(topics.told("a", now + BELIEVED / 2), Some(largest));
            assert_eq!(topics.told("a", now + BELIEVED), None, "it is time to look again");
        }
        topics.remember("a");
        assert_eq!(topics.told("a", now), Some(None), "a publish forgets nothing");
        topics.remember("0");
        assert_eq!(topics.names(), ["0", "a"]);
    }
}
