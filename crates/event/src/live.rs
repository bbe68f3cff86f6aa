//! What a running relay shows of itself, second by second.

use serde::Serialize;

use crate::{Cause, Durability, Finding, Level};

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Beat {
    /// The second, since 1970.
    pub second: i64,
    /// Events published.
    pub sent: u64,
    /// Events refused, to be tried again.
    pub retried: u64,
    /// Events given up.
    pub dead: u64,
    /// Events pending at the end of the second.
    pub pending: u64,
}

/// What a lane does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneState {
    /// It takes turns.
    Running,
    /// Another relay holds what waits; it takes over when that one falls silent.
    Standby,
    /// Its destination is down; it rests and probes.
    Resting,
    /// Its database is down; it waits.
    Waiting,
    /// Its database is broken until somebody mends it; it is tried again now and then.
    Broken,
    /// It has stopped.
    Stopped,
}

/// One lane, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneView {
    /// The outbox it reads.
    pub outbox: String,
    /// The sink it publishes to.
    pub sink: String,
    /// What it does.
    pub state: LaneState,
    /// Why, if it does not run.
    pub cause: Option<Cause>,
}

/// One destination as it was last looked at, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkView {
    /// The sink.
    pub sink: String,
    /// What its receipts are worth; unknown if it did not answer.
    pub durability: Option<Durability>,
    /// What it tells of its load.
    pub levels: Vec<Level>,
    /// What is not as it should be, the worst first.
    pub findings: Vec<Finding>,
    /// Why nothing is known.
    pub cause: Option<Cause>,
}

/// The pulse of the relay in this process.
pub trait Pulse: Send + Sync {
    /// Returns the newest beats, oldest first.
    fn beats(&self, most: usize) -> Vec<Beat>;
    /// Returns the lanes.
    fn lanes(&self) -> Vec<LaneView>;
    /// Returns the destinations.
    fn sinks(&self) -> Vec<SinkView>;
    /// Returns the metrics page.
    fn metrics(&self) -> String;
}
