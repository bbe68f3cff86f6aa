//! What a consumer did with the events that came to it.

use event::{Consumed, Witness};
use metrics::{counter, histogram};

use crate::{Telemetry, names};

/// What became of an event each time that it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenIn {
    /// It was taken in, and its effect is there.
    First,
    /// It had been taken in before, and nothing was done.
    Before,
    /// Nothing is there of it: it may come again.
    Failed,
}

/// Counts an event that came to a consumer group.
pub fn taken_in(group: &str, what: TakenIn) {
    let name = match what {
        TakenIn::First => names::TAKEN_IN,
        TakenIn::Before => names::DUPLICATES,
        TakenIn::Failed => names::FAILED,
    };
    counter!(name, "group" => group.to_owned()).increment(1);
}

/// A consumer that an application runs tells all of it by this.
impl Witness for Telemetry {
    fn consumed(&self, group: &str, what: &Consumed) {
        match what {
            Consumed::First { age, .. } => {
                histogram!(names::INBOX_AGE, "group" => group.to_owned()).record(*age);
                taken_in(group, TakenIn::First);
            }
            Consumed::Before => taken_in(group, TakenIn::Before),
            Consumed::Again(_) | Consumed::Dead(_) => taken_in(group, TakenIn::Failed),
            // Nothing came, so nothing became of anything.
            Consumed::Away(_) => {}
        }
    }
}
