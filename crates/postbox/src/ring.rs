//! A ring for a relay in the same process, so that it need not look for itself.

use std::sync::Arc;

/// Wakes the relay of this process after a commit. Without it, the relay finds the event when it
/// looks next, which is a moment later.
#[derive(Clone)]
pub struct Ring(Arc<dyn store::Outbox>);

impl Ring {
    /// Rings for the relay that has this handle.
    pub fn of(relay: Arc<dyn store::Outbox>) -> Ring {
        Ring(relay)
    }

    /// Says that something was committed.
    pub fn ring(&self) {
        self.0.ring();
    }
}
