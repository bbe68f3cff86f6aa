//! The only crate that knows metric names and the log format.
//!
//! Facts are taken at the seams: a [`Telemetry`] wraps a lane's source and sink, or an inbox, and
//! counts what passes. Nothing else in the house emits a metric.

mod beats;
mod flight;
mod inbox;
mod lanes;
mod logs;
mod names;
mod telemetry;
mod watched;

pub use logs::{LogFormat, check_filter, logs};
pub use telemetry::Telemetry;
