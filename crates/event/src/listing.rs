//! The rows as a person sees them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Cause, Event, EventId, Millis};

/// The status names that people know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// It waits to be claimed for the first time, now or at its own time.
    New,
    /// A relay has it in hand.
    Dispatching,
    /// It was tried before and waits for another attempt.
    Retry,
    /// The broker has it.
    Sent,
    /// It was given up and waits for a person.
    Dead,
}

impl Status {
    /// Every status, in the order of a row's life.
    pub const ALL: [Status; 5] =
        [Status::New, Status::Dispatching, Status::Retry, Status::Sent, Status::Dead];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::New => "NEW",
            Status::Dispatching => "DISPATCHING",
            Status::Retry => "RETRY",
            Status::Sent => "SENT",
            Status::Dead => "DEAD",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Status, String> {
        let found = Status::ALL.into_iter().find(|s| s.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            format!("{text:?} is no status; take one of NEW, DISPATCHING, RETRY, SENT, DEAD")
        })
    }
}

/// One thing that went wrong on an event's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When, by the database's clock.
    pub at: Millis,
    /// In which attempt.
    pub attempt: u32,
    /// What.
    pub cause: Cause,
}

impl Moment {
    /// How many moments a row remembers.
    pub const MOST: usize = 20;

    /// Drops the oldest moments beyond what a row remembers.
    pub fn bound(trail: &mut Vec<Moment>) {
        let extra = trail.len().saturating_sub(Moment::MOST);
        trail.drain(..extra);
    }
}

/// One event and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The event.
    pub event: Event,
    /// Where it is.
    pub status: Status,
    /// How often it was claimed.
    pub attempts: u32,
    /// When it may be claimed (again), while it waits.
    pub next_attempt: Option<Millis>,
    /// What went wrong, oldest first.
    pub trail: Vec<Moment>,
    /// The broker's id for it, once sent.
    pub broker_id: Option<String>,
    /// When it was last moved.
    pub updated: Millis,
    /// How many events of its key wait behind it, while it holds them.
    pub behind: u64,
}

impl Listed {
    /// Returns the newest cause.
    pub fn last_error(&self) -> Option<&Cause> {
        self.trail.last().map(|moment| &moment.cause)
    }
}

/// Which events to list, to count or to requeue. Empty is all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// One identity.
    pub id: Option<EventId>,
    /// One business key, exactly.
    pub key: Option<String>,
    /// One event type, exactly.
    pub kind: Option<String>,
    /// One topic, exactly.
    pub topic: Option<String>,
    /// One status.
    pub status: Option<Status>,
    /// One cause code of the newest trouble.
    pub code: Option<String>,
}

/// Where a page ends and the next begins. Only the store that gave it out can read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// Which part of a listing, newest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// How many at the most.
    pub limit: usize,
    /// Where to go on.
    pub after: Option<Cursor>,
    /// Whether payloads are read as well.
    pub payloads: bool,
}

/// A page of a listing.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The events, newest first.
    pub events: Vec<Listed>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
    /// How far back the search came before it had looked at enough rows for one page. What is
    /// older was not looked at yet, and `next` goes on there.
    pub searched_to: Option<Millis>,
}

/// How many events are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// They wait to be claimed for the first time, delayed ones included.
    pub new: u64,
    /// A relay has them in hand.
    pub dispatching: u64,
    /// They were tried before and wait for another attempt.
    pub retry: u64,
    /// They were given up.
    pub dead: u64,
    /// They were published since the outbox was made, history that was trimmed included.
    pub sent: u64,
    /// Whether all of this is counted; beyond a hundred thousand rows of one kind, how many they
    /// are is an estimate from above.
    pub exact: bool,
    /// The earliest due moment of what waits, if anything is due.
    pub oldest_due: Option<Millis>,
    /// The database's clock at the count.
    pub now: Millis,
}

impl Counts {
    /// Returns how many are neither sent nor dead.
    pub fn pending(&self) -> u64 {
        self.new + self.dispatching + self.retry
    }

    /// Returns how many were ever committed.
    pub fn committed(&self) -> u64 {
        self.pending() + self.sent + self.dead
    }
}

/// What a requeue did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requeued {
    /// These are due again.
    pub requeued: Vec<EventId>,
    /// These were not dead (any more): nothing was changed for them.
    pub skipped: Vec<EventId>,
}
