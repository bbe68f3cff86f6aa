//! The only crate that knows metric names and the log format.
//!
//! Facts are taken at the seams: a [`Telemetry`] wraps a lane's source and sink and
//! counts what passes; a consumer says what it took in. Nothing else in the house emits a metric.

mod beats;
mod doubt;
mod flight;
mod inbox;
mod lanes;
mod logs;
mod names;
mod sinks;
mod telemetry;
mod told;
mod troubles;
mod watched;

pub use inbox::{TakenIn, taken_in};
pub use logs::{LogFormat, check_filter, logs};
pub use sinks::inspect;
pub use telemetry::Telemetry;
