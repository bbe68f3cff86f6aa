//! What a sink answers, and what becomes of a claim.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Address, Cause, EventId, Fence, Millis};

/// The broker's word that it has the event, at the sink's declared durability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The broker's own id for it, where it gives one.
    pub broker_id: Option<String>,
}

/// Why a sink has no receipt. Each variant is a different reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The destination is out of reach: rest the lane, spend no attempt.
    Down(Cause),
    /// It may work later: back off, at least as long as the destination asks.
    Retry(Cause, Option<Duration>),
    /// It will never work: dead at once.
    Reject(Cause),
    /// It may have arrived: back off, and never call it undelivered.
    Unknown(Cause),
    /// It was not offered, because an earlier event of its key was refused, time ran short or the
    /// relay stops: put it back.
    Held,
}

impl Refusal {
    /// Returns why, where there is a reason.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Refusal::Down(cause)
            | Refusal::Retry(cause, _)
            | Refusal::Reject(cause)
            | Refusal::Unknown(cause) => Some(cause),
            Refusal::Held => None,
        }
    }
}

/// A sink's answer for one event.
pub type Answer = Result<Receipt, Refusal>;

/// What becomes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was published.
    Done(Receipt),
    /// It is due again after a while.
    Retry {
        /// How long to wait.
        after: Duration,
        /// Why.
        cause: Cause,
    },
    /// It is due again after a while, as if it had not been claimed: no attempt is spent.
    Release {
        /// How long to wait.
        after: Duration,
    },
    /// It is given up, and waits for a person.
    Dead(Cause),
}

/// An outcome, addressed to the claim that it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The row.
    pub address: Address,
    /// The event.
    pub id: EventId,
    /// When its row was created, as far as whoever settles knows.
    pub created: Option<Millis>,
    /// The claim's fence: an older one than the row's changes nothing.
    pub fence: Fence,
    /// What became of it.
    pub outcome: Outcome,
}

/// What settling did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// How many claims were settled.
    pub settled: usize,
    /// Claims that were no longer the newest: nothing was changed for them.
    pub stale: Vec<EventId>,
}
