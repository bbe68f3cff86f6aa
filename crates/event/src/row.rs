//! A row's life as pure functions. Every store does what these do; the model calls them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Event, EventId, Millis, Moment, Outcome, Receipt, Settlement};

/// A number that grows with every claim. A writer with an older one changes nothing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl Fence {
    /// Returns the next one.
    #[must_use]
    pub fn next(self) -> Fence {
        Fence(self.0 + 1)
    }
}

/// The table a claimable row stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Shelf {
    /// `outbox`: what waits now.
    Hot,
    /// `outbox_later`: delayed, or backing off.
    Later,
}

/// Where a claimable row stands. Only the store that gave it out can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The table.
    pub shelf: Shelf,
    /// The shard.
    pub shard: u16,
    /// The row's number in its table.
    pub number: i64,
}

/// A row handed to one relay until its lease runs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The event.
    pub event: Event,
    /// The row.
    pub address: Address,
    /// What a settlement must carry.
    pub fence: Fence,
    /// Since when it could have been claimed, by the database's clock.
    pub due: Millis,
    /// Which attempt this is, counted from 1 at the claim.
    pub attempt: u32,
    /// How many of the attempts right before this one nobody settled.
    pub unexplained: u32,
}

impl Claim {
    /// Addresses an outcome to this claim.
    pub fn end(&self, outcome: Outcome) -> Settlement {
        let Claim { event, address, fence, .. } = self;
        let created = Some(event.created);
        Settlement { address: *address, id: event.id, created, fence: *fence, outcome }
    }
}

/// Where a row is: its table is its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It waits to be claimed, now or later.
    Waiting(Shelf),
    /// The broker has it.
    Sent(Receipt),
    /// It was given up.
    Dead,
}

/// An outbox row, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The event.
    pub event: Event,
    /// The table it stands in.
    pub place: Place,
    /// A waiting row may be claimed from this moment on. Scheduling, backing off and leasing are
    /// all the one act of moving it ahead, so a lease that runs out needs nobody to notice.
    pub due: Millis,
    /// The newest claim's fence.
    pub fence: Fence,
    /// How often it was claimed.
    pub attempt: u32,
    /// How often it was claimed since anyone last said what became of it.
    pub unexplained: u32,
    /// What went wrong, oldest first.
    pub trail: Vec<Moment>,
}

impl Row {
    /// How many unexplained attempts make a row too dangerous to be claimed beside others.
    pub const SUSPECT: u32 = 2;

    /// Puts an event down to be claimed at once.
    pub fn new(event: Event) -> Row {
        let due = event.created;
        Row::with(event, Shelf::Hot, due)
    }

    /// Puts an event down to be claimed at `due`.
    pub fn delayed(event: Event, due: Millis) -> Row {
        Row::with(event, Shelf::Later, due)
    }

    fn with(event: Event, shelf: Shelf, due: Millis) -> Row {
        let place = Place::Waiting(shelf);
        let fence = Fence::default();
        Row { event, place, due, fence, attempt: 0, unexplained: 0, trail: Vec::new() }
    }

    /// Tells whether the row may be claimed. A hot row stands in a line, which has no time: it may
    /// be, whatever a clock that was set back says, unless it is in hand.
    pub fn is_due(&self, now: Millis) -> bool {
        match self.place {
            Place::Waiting(Shelf::Hot) => self.unexplained == 0 || self.due <= now,
            Place::Waiting(Shelf::Later) => self.due <= now,
            Place::Sent(_) | Place::Dead => false,
        }
    }

    /// Tells whether the row must be claimed alone, because it may be what killed a relay twice.
    pub fn is_suspect(&self) -> bool {
        self.unexplained >= Row::SUSPECT
    }

    /// Hands the row out. The attempt is counted here and not at the settlement, so that an event
    /// which kills the relay each time still runs out of attempts.
    pub fn claim(&mut self, fence: Fence, now: Millis, lease: Duration) {
        debug_assert!(self.is_due(now) && fence >= self.fence);
        self.due = now + lease;
        self.fence = fence;
        self.attempt += 1;
        self.unexplained += 1;
    }

    /// Ends a claim that nobody settled in time: the row is due, and the attempt stays counted.
    pub fn lapse(&mut self, now: Millis) {
        self.place = Place::Waiting(Shelf::Later);
        self.due = now;
    }

    /// Writes an outcome down. Returns `false`, and changes nothing, when the fence is not that of
    /// the newest claim.
    #[must_use]
    pub fn settle(&mut self, fence: Fence, outcome: &Outcome, now: Millis) -> bool {
        let Place::Waiting(shelf) = self.place else { return false };
        if self.fence != fence || self.unexplained == 0 {
            return false;
        }
        match outcome {
            Outcome::Done(receipt) => self.place = Place::Sent(receipt.clone()),
            Outcome::Dead(cause) => {
                self.trail.push(Moment { at: now, attempt: self.attempt, cause: cause.clone() });
                self.place = Place::Dead;
            }
            Outcome::Retry { after, cause } => {
                self.trail.push(Moment { at: now, attempt: self.attempt, cause: cause.clone() });
                self.place = Place::Waiting(Shelf::Later);
                self.due = now + *after;
            }
            Outcome::Release { after } => {
                self.attempt -= 1;
                // A released hot row goes back to its place in the line, which has no time.
                self.due = if shelf == Shelf::Hot { self.event.created } else { now + *after };
            }
        }
        Moment::bound(&mut self.trail);
        self.unexplained = 0;
        true
    }

    /// Gives a dead row a new life with the same event id. Returns `false` when it is not dead.
    #[must_use]
    pub fn requeue(&mut self, now: Millis) -> bool {
        if self.place != Place::Dead {
            return false;
        }
        self.place = Place::Waiting(Shelf::Later);
        self.due = now;
        self.attempt = 0;
        self.unexplained = 0;
        true
    }

    /// Returns the event's identity.
    pub fn id(&self) -> EventId {
        self.event.id
    }
}
