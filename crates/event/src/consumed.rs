//! What became of the deliveries of a consumer, as whoever listens hears it.

use std::time::Duration;

use crate::Cause;

/// What became of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// It was taken in, and its effect is there.
    First {
        /// How long the work took, its commit included.
        work: Duration,
        /// How old the event was then, since its row was written.
        age: Duration,
    },
    /// It had been taken in before, and nothing was done.
    Before,
    /// Nothing is there of it: it comes again, or is tried again while it is in hand.
    Again(Cause),
    /// It was given up, and comes no more.
    Dead(Cause),
    /// The broker did not answer: nothing came, or it did not hear that an event is dead.
    Away(Cause),
}

/// Listens to a consumer. It must be quick, for the consumer waits.
pub trait Witness: Send + Sync {
    /// Hears what became of a delivery of this group.
    fn consumed(&self, group: &str, what: &Consumed);
}
