//! Outcomes of claims, by what becomes of the rows, as the statements take them.
//!
//! A row is named by its number, its fence and its event: after a crash of the server that lost
//! the newest commits, a number may be given out again.

use event::{Cause, EventId, Fence, Millis, Moment, Outcome, Settlement};

use super::flight::Out;

/// Rows, named one array a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) numbers: Vec<i64>,
    pub(crate) fences: Vec<i64>,
    pub(crate) ids: Vec<String>,
}

impl Named {
    /// Names a row.
    pub(crate) fn push(&mut self, number: i64, fence: Fence, id: EventId) {
        self.numbers.push(number);
        self.fences.push(fence.0);
        self.ids.push(id.to_string());
    }

    /// Tells whether none is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// Outcomes, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// What was published, with the broker's ids.
    pub(crate) done: (Named, Vec<Option<String>>),
    /// What is to be tried again: when, and the trails.
    pub(crate) retry: (Named, Vec<i64>, Vec<String>),
    /// What goes back as if it had not been claimed: when it is due.
    pub(crate) release: (Named, Vec<i64>),
    /// What is given up: attempts and trails.
    pub(crate) dead: (Named, Vec<i32>, Vec<String>),
}

impl Ends {
    /// Adds an outcome of a row in flight.
    pub(crate) fn add(&mut self, end: &Settlement, out: &Out, now: Millis) {
        let longer = |cause: &Cause| {
            let mut trail = out.trail.clone();
            trail.push(Moment { at: now, attempt: out.attempts, cause: cause.clone() });
            Moment::bound(&mut trail);
            serde_json::to_string(&trail).expect("a cause is always JSON")
        };
        let (number, fence, id) = (end.address.number, end.fence, end.id);
        match &end.outcome {
            Outcome::Done(receipt) => {
                self.done.0.push(number, fence, id);
                self.done.1.push(receipt.broker_id.clone());
            }
            Outcome::Retry { after, cause } => {
                self.retry.0.push(number, fence, id);
                self.retry.1.push((now + *after).0);
                self.retry.2.push(longer(cause));
            }
            Outcome::Release { after } => {
                self.release.0.push(number, fence, id);
                self.release.1.push((now + *after).0);
            }
            Outcome::Dead(cause) => {
                self.dead.0.push(number, fence, id);
                self.dead.1.push(i32::try_from(out.attempts).unwrap_or(i32::MAX));
                self.dead.2.push(longer(cause));
            }
        }
    }
}
