//! What is wanted of each figure, in one place.

use std::fmt;

/// What is wanted of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

use Goal::{AtLeast, AtMost};

impl Goal {
    /// Returns the goal of a figure, if it has one.
    pub(crate) fn of(name: &str) -> Option<Goal> {
        let (server, figure) = split(name)?;
        let wanted = GOALS.iter().find(|(servers, wanted, _)| {
            *wanted == figure && (servers.is_empty() || servers.contains(&server))
        });
        wanted.map(|(_, _, goal)| *goal)
    }

    /// Returns the ratio that is just good enough.
    pub(crate) fn edge(self) -> f64 {
        let (AtLeast(edge) | AtMost(edge)) = self;
        edge
    }

    pub(crate) fn is_met(self, ratio: f64) -> bool {
        match self {
            AtLeast(edge) => ratio >= edge,
            AtMost(edge) => ratio <= edge,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtLeast(edge) => write!(f, "≥ {edge}"),
            AtMost(edge) => write!(f, "≤ {edge}"),
        }
    }
}

/// Takes the name of a figure apart: the server, and what is measured there.
pub(crate) fn split(name: &str) -> Option<(&'static str, &str)> {
    SERVERS.iter().find_map(|server| {
        let figure = name.strip_prefix(server)?.strip_prefix('_')?;
        Some((*server, figure))
    })
}

/// The servers as figures name them, longer names before those that they begin with.
const SERVERS: &[&str] = &["sqlite", "postgres_18", "postgres", "mysql", "mariadb_10.5", "mariadb"];
const POSTGRES: &[&str] = &["postgres", "postgres_18"];
const FAMILY: &[&str] = &["mysql", "mariadb"];
const EVERY: &[&str] = &[];

/// On which servers, of which figure, and what.
const GOALS: &[(&[&str], &str, Goal)] = &[
    (&["sqlite"], "drain_vs_raw", AtLeast(0.5)),
    (&["sqlite"], "rss_of_64_mib", AtMost(1.0)),
    (&["sqlite"], "idle_of_a_core", AtMost(0.01)),
    (POSTGRES, "own_vs_claim_delete", AtLeast(2.5)),
    (POSTGRES, "own_history_vs_claim_delete", AtLeast(1.6)),
    (POSTGRES, "skip_locked_vs_claim_delete", AtLeast(0.8)),
    (FAMILY, "own_vs_claim_delete", AtLeast(2.0)),
    (EVERY, "flat", AtLeast(0.9)),
    (EVERY, "flat_backlog", AtLeast(0.9)),
    (EVERY, "flat_due", AtLeast(0.9)),
    (EVERY, "flat_due_ahead", AtLeast(0.9)),
    (EVERY, "snapshot", AtLeast(0.8)),
    (EVERY, "latency_p50", AtMost(2.0)),
    (EVERY, "latency_p99", AtMost(2.0)),
    (EVERY, "latency_notify_p50", AtMost(2.0)),
    (EVERY, "latency_notify_p99", AtMost(2.0)),
    (EVERY, "rss_mib", AtMost(64.0)),
];
