//! The answers to the events of one batch, filled in as the broker gives them.

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
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    told: Vec<Option<Told>>,
    out: usize,
}

/// The place of one event in its batch; what the client library gives back with the answer.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    place: usize,
}

impl Slots {
    pub(super) fn new(events: usize) -> Arc<Slots> {
        let state = Mutex::new(State { told: vec![None; events], out: 0 });
        Arc::new(Slots { state, changed: Notify::new() })
    }

    /// Says that an event is about to go out.
    pub(super) fn out(self: &Arc<Slots>, place: usize) -> Box<Slot> {
        self.state().out += 1;
        Box::new(Slot { slots: Arc::clone(self), place })
    }

    /// Returns what was told of an event.
    pub(super) fn told(&self, place: usize) -> Option<Told> {
        self.state().told[place]
    }

    /// Waits until nothing is out.
    pub(super) async fn all(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state().out == 0 {
                return;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Fills the answer in.
    pub(super) fn tell(self, told: Told) {
        let mut state = self.slots.state();
        state.told[self.place] = Some(told);
        state.out -= 1;
        if state.out == 0 {
            self.slots.changed.notify_waiters();
        }
    }

    /// Says that it did not go out after all.
    pub(super) fn take_back(self) {
        self.slots.state().out -= 1;
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
        first.tell(Ok(Put { partition: 1, offset: 7 }));
        let late = async { second.tell(Err(RDKafkaErrorCode::PurgeQueue)) };
        tokio::join!(slots.all(), late);
        assert_eq!(slots.told(0), Some(Ok(Put { partition: 1, offset: 7 })));
        assert_eq!(slots.told(1), None);
        assert_eq!(slots.told(2), Some(Err(RDKafkaErrorCode::PurgeQueue)));
    }
}
