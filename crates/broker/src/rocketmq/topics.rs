//! Which topics were offered events, and which of them have taken one.
//!
//! Nothing is forgotten while the process lives: one that has worked and has no route any more has
//! lost its broker, for however long.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The topics of one sink, and whether each has worked.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<BTreeMap<String, bool>>);

impl Topics {
    /// It is offered an event.
    pub(super) fn offered(&self, topic: &str) {
        let mut known = self.known();
        if !known.contains_key(topic) {
            known.insert(topic.to_owned(), false);
        }
    }

    /// It took an event.
    pub(super) fn worked(&self, topic: &str) {
        let mut known = self.known();
        match known.get_mut(topic) {
            Some(worked) => *worked = true,
            None => drop(known.insert(topic.to_owned(), true)),
        }
    }

    /// Tells whether it ever took an event.
    pub(super) fn has_worked(&self, topic: &str) -> bool {
        self.known().get(topic).is_some_and(|worked| *worked)
    }

    /// Returns every topic that has worked.
    pub(super) fn all(&self) -> Vec<String> {
        let known = self.known();
        known.iter().filter(|(_, worked)| **worked).map(|(topic, _)| topic.clone()).collect()
    }

    /// Returns every topic but this one, those that have worked first.
    pub(super) fn others(&self, topic: &str) -> Vec<String> {
        let known = self.known();
        let mut others: Vec<_> = known.iter().filter(|(other, _)| *other != topic).collect();
        others.sort_by_key(|(_, worked)| !**worked);
        others.into_iter().map(|(other, _)| other.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_has_worked_is_remembered_and_one_that_was_offered_comes_behind_it() {
        let topics = Topics::default();
        assert!(!topics.has_worked("b"), "it never was there");
        topics.offered("a");
        topics.worked("b");
        topics.offered("b");
        topics.offered("c");
        assert!(topics.has_worked("b") && !topics.has_worked("a"));
        assert_eq!(topics.all(), ["b"]);
        assert_eq!(topics.others("c"), ["b", "a"]);
    }
}
