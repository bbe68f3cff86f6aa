//! Every metric's name and meaning, in one place.

use metrics::{describe_counter, describe_gauge, describe_histogram};

pub(crate) const CLAIMED: &str = "postbox_claimed_total";
pub(crate) const PUBLISHED: &str = "postbox_published_total";
pub(crate) const REFUSED: &str = "postbox_refused_total";
pub(crate) const DEAD: &str = "postbox_dead_total";
pub(crate) const STALE: &str = "postbox_stale_total";
pub(crate) const STORE_ERRORS: &str = "postbox_store_errors_total";
pub(crate) const LATENCY: &str = "postbox_dispatch_latency_seconds";
pub(crate) const ATTEMPTS: &str = "postbox_attempts";
pub(crate) const PUBLISH: &str = "postbox_publish_seconds";
pub(crate) const CLAIM: &str = "postbox_claim_seconds";
pub(crate) const SETTLE: &str = "postbox_settle_seconds";
pub(crate) const EVENTS: &str = "postbox_events";
pub(crate) const OLDEST: &str = "postbox_oldest_due_seconds";
pub(crate) const LANE_UP: &str = "postbox_lane_up";

pub(crate) fn describe() {
    describe_counter!(CLAIMED, "Events claimed, by outbox and sink.");
    describe_counter!(PUBLISHED, "Events with a receipt, by outbox and sink.");
    describe_counter!(REFUSED, "Answers without a receipt, by outbox, sink, reaction and code.");
    describe_counter!(DEAD, "Events given up, by outbox, sink and code.");
    describe_counter!(STALE, "Settlements that came too late and changed nothing.");
    describe_counter!(STORE_ERRORS, "Times that a database did not answer, by outbox and code.");
    describe_histogram!(LATENCY, "From the row's creation to the broker's receipt, in seconds.");
    describe_histogram!(ATTEMPTS, "Which attempt a claim was.");
    describe_histogram!(PUBLISH, "How long a sink took for a batch, in seconds.");
    describe_histogram!(CLAIM, "How long a claim took, in seconds.");
    describe_histogram!(SETTLE, "How long a settlement took, in seconds.");
    describe_gauge!(EVENTS, "Events by outbox and status.");
    describe_gauge!(OLDEST, "Age of the oldest event that is due, in seconds.");
    describe_gauge!(LANE_UP, "1 while a lane takes turns, 0 while it rests or waits.");
}
