//! Which topics have worked, and since when one that has is missing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a topic that has worked may be without a route until it counts as gone. A proxy
/// remembers for 20 s that there was none.
const MISSING: Duration = Duration::from_secs(60);

/// The topics of one sink.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<HashMap<String, Option<Instant>>>);

impl Topics {
    /// It took an event.
    pub(super) fn worked(&self, topic: &str) {
        let mut known = self.known();
        match known.get_mut(topic) {
            Some(missing) => *missing = None,
            None => drop(known.insert(topic.to_owned(), None)),
        }
    }

    /// It has no route. Tells whether it had one not long ago.
    pub(super) fn missing(&self, topic: &str) -> bool {
        let mut known = self.known();
        let Some(missing) = known.get_mut(topic) else { return false };
        let since = *missing.get_or_insert_with(Instant::now);
        let recent = since.elapsed() < MISSING;
        if !recent {
            known.remove(topic);
        }
        recent
    }

    /// Returns every topic that has worked.
    pub(super) fn all(&self) -> Vec<String> {
        let mut all: Vec<_> = self.known().keys().cloned().collect();
        all.sort_unstable();
        all
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_topic_is_missed_for_a_minute_and_then_it_is_gone() {
        let topics = Topics::default();
        assert!(!topics.missing("t"), "it never was there");
        topics.worked("t");
        assert!(topics.missing("t"));
        tokio::time::advance(MISSING / 2).await;
        assert!(topics.missing("t"));
        topics.worked("t");
        tokio::time::advance(MISSING / 2).await;
        assert!(topics.missing("t"), "it has worked in between");
        tokio::time::advance(MISSING).await;
        assert!(!topics.missing("t"));
        assert!(topics.all().is_empty());
    }
}
