//! The business side of a measurement.

/// How many transactions each measurement commits.
pub(super) const TRANSACTIONS: usize = 1200;

/// Returns a key of an event.
pub(super) fn key() -> String {
    fastrand::u32(..1000).to_string()
}

/// Returns the payload of an event.
pub(super) fn payload() -> String {
    format!("{{\"x\":\"{}\"}}", "y".repeat(super::bed::SIZE - 8))
}
