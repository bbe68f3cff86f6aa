//! What brokers said lately of events that they have, and do not keep as safely as they are set to.
//!
//! Another broker may keep all of its own meanwhile, so a receipt is no end of it: only time is.
//! But however seldom somebody looks, each is told once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Finding, Grade};
use tokio::time::Instant;

/// How long it is told, from the first look on.
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
    /// Until when it is told, since somebody has looked.
    until: Option<Instant>,
    topic: String,
    words: String,
}

impl Unkept {
    /// A broker said that an event of a topic lacks something.
    pub(super) fn note(&self, lack: Lack, topic: &str, words: &str) {
        let (at, topic, words) = (Instant::now(), topic.to_owned(), words.to_owned());
        let said = Said { at, until: None, topic, words };
        match lack {
            Lack::Copy => self.last().copy = Some(said),
            Lack::Flush => self.last().flush = Some(said),
        }
    }

    /// Returns what was said since somebody looked, and what was told first within the last minute.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut last = self.last();
        let Last { copy, flush } = &mut *last;
        let copy = tell(copy, "copies", "a slave was away or too slow");
        let flush = tell(flush, "flushes", "a disk was too slow for SYNC_FLUSH");
        copy.into_iter().chain(flush).collect()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells what was said, unless it was told for long enough.
fn tell(said: &mut Option<Said>, what: &str, why: &str) -> Option<Finding> {
    let Said { at, until, topic, words } = said.as_mut()?;
    let now = Instant::now();
    if now >= *until.get_or_insert(now + LATELY) {
        return None;
    }
    let ago = at.elapsed().as_secs();
    let detail = format!(
        "{why} {ago} s ago, {topic} for one: {words}; events of such a broker have no receipt, \
         back off and spend attempts"
    );
    Some(Finding::new(Grade::Bad, what, detail))
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
        assert_eq!(told(), ["copies"]);
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

    #[tokio::test(start_paused = true)]
    async fn what_an_event_lacked_is_told_however_late_somebody_looks() {
        let unkept = Unkept::default();
        unkept.note(Lack::Copy, "order_paid", "11: SLAVE_NOT_AVAILABLE");
        tokio::time::advance(LATELY * 3).await;
        let late = unkept.findings().remove(0);
        assert!(late.detail.contains("180 s ago"), "{}", late.detail);
        tokio::time::advance(LATELY / 4).await;
        assert_eq!(unkept.findings().len(), 1, "the first look may have come to nothing");
        tokio::time::advance(LATELY).await;
        assert_eq!(unkept.findings(), []);
        unkept.note(Lack::Copy, "order_paid", "11: SLAVE_NOT_AVAILABLE");
        assert_eq!(unkept.findings().len(), 1, "it was said again");
    }
}
