//! What brokers said lately of events that they have, and do not keep as safely as they are set to.
//!
//! Another broker may keep all of its own meanwhile, so a receipt is no end of it: only time is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Finding, Grade};
use tokio::time::Instant;

/// How long it counts.
const LATELY: Duration = Duration::from_secs(60);

/// What an event lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// A second copy.
    Copy,
    /// It may not be on the disk yet.
    Flush,
}

/// The last of each.
#[derive(Default)]
pub(super) struct Unkept(Mutex<Last>);

#[derive(Default)]
struct Last {
    copy: Option<Said>,
    flush: Option<Said>,
}

struct Said {
    at: Instant,
    topic: String,
    words: String,
}

impl Unkept {
    /// A broker said that an event of a topic lacks something.
    pub(super) fn note(&self, lack: Lack, topic: &str, words: &str) {
        let said = Said { at: Instant::now(), topic: topic.to_owned(), words: words.to_owned() };
        match lack {
            Lack::Copy => self.last().copy = Some(said),
            Lack::Flush => self.last().flush = Some(said),
        }
    }

    /// Returns what was said within the last minute.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let last = self.last();
        let of = |said: &Option<Said>, what: &str, why: &str| {
            let Said { topic, words, .. } =
                said.as_ref().filter(|said| said.at.elapsed() < LATELY)?;
            let detail = format!(
                "{why} within the last minute, {topic} for one: {words}; events of such a broker \
                 have no receipt, back off and spend attempts"
            );
            Some(Finding::new(Grade::Bad, what, detail))
        };
        let copy = of(&last.copy, "copies", "a slave was away or too slow");
        let flush = of(&last.flush, "flushes", "a disk was too slow for SYNC_FLUSH");
        copy.into_iter().chain(flush).collect()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_an_event_lacked_is_told_for_a_minute_each_by_its_own_name() {
        let unkept = Unkept::default();
        let told = || unkept.findings().into_iter().map(|it| it.what).collect::<Vec<_>>();
        assert_eq!(told(), [""; 0]);
        unkept.note(Lack::Copy, "order_paid", "11: SLAVE_NOT_AVAILABLE");
        tokio::time::advance(LATELY / 2).await;
        unkept.note(Lack::Flush, "order_paid", "10: FLUSH_DISK_TIMEOUT");
        assert_eq!(told(), ["copies", "flushes"]);
        let first = unkept.findings().remove(0);
        assert_eq!(first.grade, Grade::Bad);
        assert!(first.detail.contains("order_paid") && first.detail.contains("SLAVE_NOT"));
        tokio::time::advance(LATELY / 2).await;
        assert_eq!(told(), ["flushes"]);
        tokio::time::advance(LATELY / 2).await;
        assert_eq!(told(), [""; 0]);
    }
}
