//! The business side of a measurement.

/// How many transactions each measurement commits.
pub(super) const TRANSACTIONS: usize = 1200;

/// The business table.
pub(super) const SALE: &str =
    "CREATE TABLE sale (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, total bigint NOT NULL)";

/// Returns the payload of an event.
pub(super) fn payload() -> String {
    format!("{{\"x\":\"{}\"}}", "y".repeat(super::bed::SIZE - 8))
}
