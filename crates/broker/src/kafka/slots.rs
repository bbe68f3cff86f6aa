//! The answers to the events of one batch, filled in as the broker gives them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::Notify;

/// Where an event was put: its partition, and its offset if the broker tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// What became of one event.
pub(super) type Told = Result<Put, RDKafkaErrorCode>;

/// One batch that is out.
#[derive(Debug)]
pub(super) struct Slots {
    told: Mutex<Vec<Option<Told>>>,
    /// Beside the answers, not with them: whoever hands over does not wait for who fills them in.
    out: AtomicUsize,
    changed: Notify,
}

/// The place of one event in its batch; what the client library gives back with the answer.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    place: usize,
}

impl Slots {
    pub(super) fn new(events: usize) -> Arc<Slots> {
        let (told, out) = (Mutex::new(vec![None; events]), AtomicUsize::new(0));
        Arc::new(Slots { told, out, changed: Notify::new() })
    }

    /// Says that an event is about to go out.
    pub(super) fn out(self: &Arc<Slots>, place: usize) -> Box<Slot> {
        self.out.fetch_add(1, Ordering::Relaxed);
        Box::new(Slot { slots: Arc::clone(self), place })
    }

    /// Returns what was told of each event so far.
    pub(super) fn told(&self) -> Vec<Option<Told>> {
        self.answers().clone()
    }

    /// Waits until nothing is out.
    pub(super) async fn all(&self) {
        loop {
            let changed = self.changed.notified();
            if self.out.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    fn answers(&self) -> MutexGuard<'_, Vec<Option<Told>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Fills the answer in.
    pub(super) fn tell(self, told: Told) {
        self.slots.answers()[self.place] = Some(told);
        if self.slots.out.fetch_sub(1, Ordering::Release) == 1 {
            self.slots.changed.notify_waiters();
        }
    }

    /// Says that it did not go out after all.
    pub(super) fn take_back(self) {
        self.slots.out.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_batch_is_done_when_every_event_has_its_answer() {
        let slots = Slots::new(3);
        let (first, second) = (slots.out(0), slots.out(2));
        slots.out(1).take_back();
        let waiting = tokio::time::timeout(Duration::from_millis(10), slots.all());
        assert!(waiting.await.is_err());
        let put = Put { partition: 1, offset: 7 };
        first.tell(Ok(put));
        let late = async { second.tell(Err(RDKafkaErrorCode::PurgeQueue)) };
        tokio::join!(slots.all(), late);
        assert_eq!(slots.told(), [Some(Ok(put)), None, Some(Err(RDKafkaErrorCode::PurgeQueue))]);
    }
}
