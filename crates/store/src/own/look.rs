//! What one look at a shard showed, and what it lets a relay do.

use event::{Fence, Millis};

/// One look at the clock, a shard's lease and what waits in it. It writes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// The shard.
    pub(crate) shard: u16,
    /// The clock that rules.
    pub(crate) now: Millis,
    /// Who took the lease last.
    pub(crate) owner: String,
    /// What tells that taking from every other one. It grows.
    pub(crate) mark: Fence,
    /// Until when; 0 when it was handed over.
    pub(crate) until: Millis,
    /// Whether there are hot rows.
    pub(crate) hot: bool,
    /// Whether there are hot rows above the cursor.
    pub(crate) ahead: bool,
    /// The first of them, or what was claimed before it, where each shard is looked at by itself;
    /// else 0.
    pub(crate) front: i64,
    /// The earliest due time of a later row.
    pub(crate) due: Option<Millis>,
    /// The newest later row's number.
    pub(crate) newest: i64,
}

impl Look {
    /// Tells whether a later row is due.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= self.now)
    }
}

/// What a relay may do, by what it holds and what it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// Another relay has the lease.
    Nothing,
    /// Nothing waits.
    Idle,
    /// Nothing waits, but the lease runs down.
    Renew,
    /// Claim under the lease that it has.
    Keep,
    /// Take the lease, and claim.
    Take,
}
