//! How brokers honestly differ. The suites ask here, and `docs/reference/brokers.md` prints it.

use event::{Durability, Gauge};

/// What one kind of broker can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The kind, as a config writes it.
    pub kind: &'static str,
    /// The most that its receipts can be worth.
    pub durability: Durability,
    /// Whether it keeps what it took until every group has it. Otherwise a receipt is the word of
    /// the one consumer that took it in, and whoever published it brings it again until then.
    pub keeps: bool,
    /// Bytes of payload that it takes with its usual settings.
    pub largest: usize,
    /// Whether it drops an event that it already has, for a while.
    pub dedupes: bool,
    /// Whether a topic that is not there is refused; otherwise it is made.
    pub knows_topics: bool,
    /// Whether a group takes the events of one key one after another, however many consumers.
    pub ordered: bool,
    /// Whether it tells how often a delivery was handed out.
    pub counts: bool,
    /// Whether a holder can keep a delivery longer than its lease, and loses it otherwise.
    pub leases: bool,
    /// What it tells of its load.
    pub levels: &'static [Gauge],
}
